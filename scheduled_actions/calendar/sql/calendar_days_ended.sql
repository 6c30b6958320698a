-- Returns the number of actions that ended on each of several days by status and type, counting the first `most` per
-- day and status. Each count reads the index of ended actions separately, so that a day with many actions costs no more
-- and a future day costs nothing.
select
  d.day, s.status, a.action_type, null::uuid, null::uuid, a.action_type,
  count(*) filter (where a.is_wanted),
  min(a.completed_at) filter (where a.is_wanted),
  (array_agg(a.id) filter (where a.is_wanted))[1],
  count(*)
from unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) with ordinality d (starts_at, ends_at, day)
cross join unnest(array['completed', 'failed', 'cancelled', 'skipped']) s (status)
cross join lateral (
  select
    m.id, m.action_type, m.completed_at,
    %(user)s::text is null or m.user_id is not distinct from %(user)s as is_wanted
  from scheduled_actions m
  where m.status = s.status and m.completed_at >= d.starts_at and m.completed_at < d.ends_at
  order by m.completed_at
  limit %(most)s
) a
where d.starts_at <= scheduled_actions_now()
group by d.day, s.status, a.action_type
