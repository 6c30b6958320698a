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
      and (%(action_type)s::text is null or a.action_type = %(action_type)s)
      and (%(lock_group)s::text is null or a.lock_group = %(lock_group)s)
      and (%(scheduled_from)s::timestamptz is null or a.scheduled_at >= %(scheduled_from)s)
      and (%(scheduled_to)s::timestamptz is null or a.scheduled_at < %(scheduled_to)s)
      and (
        %(unlocked_for_seconds)s::int is null
        or a.status <> 'pending'
        or a.scheduled_at > scheduled_actions_now() + make_interval(secs => %(unlocked_for_seconds)s)
      )
      and (
        %(q)s::text is null
        or strpos(a.id::text, %(q)s) = 1
        or strpos(a.action_type, %(q)s) > 0
        or strpos(a.dedup_key, %(q)s) > 0
        or strpos(a.lock_group, %(q)s) > 0
      )
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
