-- Returns the executors, by name, or those in `names`: name, types, the number of due actions and of those in the queues of
-- limit keys (each counted to 10,000), since when the oldest is due, the number of running actions and of workers, and when
-- a worker last took actions over. A worker counts if it was seen within two minutes. Reads the indexes of the claims
-- priority by priority, so that actions due later are not read.
with recursive
-- include: actions/waiting_priorities,
waiting as materialized (
  select w.action_type, w.scheduled_at
  from free p
  cross join lateral (
    select a.action_type, a.scheduled_at
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority = p.priority
      and a.scheduled_at <= scheduled_actions_now()
    order by a.scheduled_at, a.id
    limit 10000
  ) w
  union all
  select w.action_type, w.scheduled_at
  from grouped p
  cross join lateral (
    select a.action_type, a.scheduled_at
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is not null and a.parked_by is null and a.priority = p.priority
      and a.scheduled_at <= scheduled_actions_now()
    order by a.scheduled_at, a.id
    limit 10000
  ) w
),
limited as materialized (
  select a.action_type, a.scheduled_at
  from scheduled_actions a
  where a.status = 'pending' and a.parked_by = 'limit'
  order by a.limit_keys[1], coalesce(a.team_id, ''), a.priority, a.scheduled_at, a.id
  limit 10000
)
select
  e.name, e.types, least(d.due + q.queued, 10000), q.queued, least(d.oldest_at, q.oldest_at), r.running, w.workers, w.taken_at
from scheduled_action_executors e
cross join lateral (
  select count(*) as due, min(o.scheduled_at) as oldest_at
  from (
    select p.scheduled_at
    from (
      select a.scheduled_at
      from scheduled_actions a
      where a.status = 'pending' and a.parked_by = 'queue:' || e.name
      order by a.priority, a.scheduled_at, a.id
      limit 10000
    ) p
    union all
    select n.scheduled_at from waiting n where n.action_type like any (e.type_patterns)
  ) o
) d
cross join lateral (
  select count(*) as queued, min(l.scheduled_at) as oldest_at
  from limited l
  where l.action_type like any (e.type_patterns)
) q
cross join lateral (
  select count(*) as running
  from scheduled_actions a
  where a.status = 'processing' and a.executor = e.name and a.announced_at is not null
) r
cross join lateral (
  select
    count(*) filter (
      where k.finished_at is null and k.seen_at > scheduled_actions_now() - interval '2 minutes'
    ) as workers,
    max(k.taken_at) as taken_at
  from scheduled_action_workers k
  where k.executor = e.name
) w
where %(names)s::text[] is null or e.name = any (%(names)s)
order by e.name
