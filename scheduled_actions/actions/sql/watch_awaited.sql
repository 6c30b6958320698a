-- The end of these actions wakes the actions that wait for them. Actions that are being claimed or settled are left
-- out. The commit does not wait for the disk, as in `register_waits.sql`.
with unsynced as materialized (
  select set_config('synchronous_commit', 'off', true)
),
found as materialized (
  select a.id
  from scheduled_actions a
  where a.id = any (%(ids)s::uuid[]) and not a.has_waiters and exists (select from unsynced)
  order by a.id
  for update skip locked
)
update scheduled_actions a
set has_waiters = true
from found f
where a.id = f.id
