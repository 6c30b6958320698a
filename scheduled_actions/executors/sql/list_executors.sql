-- Returns the executors, by name, or those in `names`: name, types, carrier, the number of claimed actions that no
-- worker has taken over (counted to 10,000) and when the oldest was claimed, the number of due actions and of those in the queues of
-- limit keys (each counted to 10,000), since when the oldest is due, the number of running actions and of workers, when a
-- worker last took actions over and was last seen, whether one was seen within two minutes, and of at most `workers` workers
-- their names, concurrencies, running actions, starts, and when they were last seen and took actions over, as parallel
-- arrays. A worker counts if it was seen within two minutes and has not ended. Reads the indexes of the claims priority by
-- priority, so that actions due later are not read.
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
),
running as materialized (
  select a.executor, a.worker_id, count(*) as number
  from scheduled_actions a
  where a.status = 'processing' and a.executor is not null and a.announced_at is not null
  group by a.executor, a.worker_id
)
select
  e.name, e.types, e.carrier, u.untaken, u.oldest_at, least(d.due + q.queued, 10000), q.queued, least(d.oldest_at, q.oldest_at), r.running, w.workers, w.taken_at,
  w.seen_at, coalesce(w.seen_at > scheduled_actions_now() - interval '2 minutes', false),
  s.names, s.concurrencies, s.running, s.started, s.seen, s.taken
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
  select count(*) as untaken, min(t.updated_at) as oldest_at
  from (
    select a.updated_at
    from scheduled_actions a
    where a.status = 'processing'
      and a.executor = e.name
      and a.announced_at is null
      and a.lease_expires_at > scheduled_actions_now()
    limit 10000
  ) t
) u
cross join lateral (
  select count(*) as queued, min(l.scheduled_at) as oldest_at
  from limited l
  where l.action_type like any (e.type_patterns)
) q
cross join lateral (
  select coalesce(sum(n.number), 0)::bigint as running
  from running n
  where n.executor = e.name
) r
cross join lateral (
  select
    count(*) filter (
      where k.finished_at is null and k.seen_at > scheduled_actions_now() - interval '2 minutes'
    ) as workers,
    max(k.taken_at) as taken_at,
    max(k.seen_at) as seen_at
  from scheduled_action_workers k
  where k.executor = e.name
) w
cross join lateral (
  select
    coalesce(array_agg(o.name), '{}') as names, coalesce(array_agg(o.concurrency), '{}') as concurrencies,
    coalesce(array_agg(o.running), '{}') as running, coalesce(array_agg(o.started_at), '{}') as started,
    coalesce(array_agg(o.seen_at), '{}') as seen, coalesce(array_agg(o.taken_at), '{}') as taken
  from (
    select
      k.name, k.concurrency, k.started_at, k.seen_at, k.taken_at,
      coalesce((select n.number from running n where n.executor = e.name and n.worker_id = k.id), 0) as running
    from scheduled_action_workers k
    where k.executor = e.name
      and k.finished_at is null
      and k.seen_at > scheduled_actions_now() - interval '2 minutes'
    order by k.started_at, k.id
    limit %(workers)s
  ) o
) s
where %(names)s::text[] is null or e.name = any (%(names)s)
order by e.name
