-- Ids of the newest actions before the cursor that match, out of the next `examined` ones, and, where that is fewer than
-- `limit`, the last of those ones: null when the table ends before. The primary key is walked backwards and left as soon
-- as there are enough.
with found as materialized (
  select array(
    select a.id
    from (
      select e.*
      from scheduled_actions e
      where e.id < coalesce(%(before)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      order by e.id desc
      limit %(examined)s
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
    offset %(examined)s - 1
    limit 1
  ) end
from found f
