-- Returns the ids of the newest matching actions among the next `scan_size` actions before the cursor, at most `limit`.
-- If fewer than `limit` match, also returns the last action scanned, or null at the end of the table. Reads the primary
-- key backwards and stops as soon as there are enough matches.
with found as materialized (
  select array(
    select a.id
    from (
      select e.*
      from scheduled_actions e
      where e.id < coalesce(%(before)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      order by e.id desc
      limit %(scan_size)s
    ) a
    where (%(statuses)s::text[] is null or a.status = any (%(statuses)s))
      -- include: actions/search_filters
    order by a.id desc
    limit %(limit)s
  ) as ids
)
select
  f.ids,
  case when cardinality(f.ids) < %(limit)s then (
    select e.id
    from scheduled_actions e
    where e.id < coalesce(%(before)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by e.id desc
    offset %(scan_size)s - 1
    limit 1
  ) end
from found f
