-- The ends of these actions wake those who wait for them. One that is being claimed or settled at this moment is left out.
with found as materialized (
  select a.id
  from scheduled_actions a
  where a.id = any (%(ids)s::uuid[]) and not a.awaited
  order by a.id
  for update skip locked
)
update scheduled_actions a
set awaited = true
from found f
where a.id = f.id
