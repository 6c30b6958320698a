-- Returns what waits for limits and pauses: the limit keys in whose queues actions have been due for longer than `seconds`,
-- with the age of the oldest in seconds, among the `most` oldest actions of each priority (at most `most` in total); the
-- keys without a pattern, among those actions and the first `most` keys with a queue; the number of slots older than
-- `seconds` whose actions are not running; the number of active pauses; and those without an end that are older than a
-- day, each as kind and name. At most `most_names` keys and pauses.
with recursive priorities (priority) as (
  (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.parked_by = 'limit'
    order by a.parked_by, a.priority
    limit 1
  )
  union all
  select (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.parked_by = 'limit' and a.priority > p.priority
    order by a.parked_by, a.priority
    limit 1
  )
  from priorities p
  where p.priority is not null
),
oldest as materialized (
  select o.*
  from priorities p
  cross join lateral (
    select
      a.limit_keys, a.team_id,
      -- include: actions/due_since
    from scheduled_actions a
    where a.status = 'pending'
      and a.parked_by = 'limit'
      and a.priority = p.priority
      and a.scheduled_at <= scheduled_actions_now()
    order by a.scheduled_at, a.id
    limit %(most)s
  ) o
  limit %(most)s
),
waiting as (
  select o.limit_keys[1] as limit_key, coalesce(o.team_id, '') as team_id, min(o.due_since) as due_since
  from oldest o
  where o.due_since < scheduled_actions_now() - make_interval(secs => %(seconds)s)
  group by o.limit_keys[1], coalesce(o.team_id, '')
),
queued (limit_key, number) as (
  (
    select a.limit_keys[1], 1
    from scheduled_actions a
    where a.status = 'pending' and a.parked_by = 'limit'
    order by a.limit_keys[1]
    limit 1
  )
  union all
  select n.limit_key, q.number + 1
  from queued q
  cross join lateral (
    select a.limit_keys[1] as limit_key
    from scheduled_actions a
    where a.status = 'pending' and a.parked_by = 'limit' and a.limit_keys[1] > q.limit_key
    order by a.limit_keys[1]
    limit 1
  ) n
  where q.number < %(most)s
)
select
  array(
    select jsonb_build_array(w.limit_key, l.scope, extract(epoch from scheduled_actions_now() - min(w.due_since)))
    from waiting w
    cross join lateral scheduled_actions_limit(w.limit_key, w.team_id) l
    where l.pattern is not null and l.pause_id is null
    group by w.limit_key, l.scope
    order by min(w.due_since)
    limit %(most_names)s
  ),
  array(
    select k.limit_key
    from (
      select q.limit_key from queued q
      union
      select unnest(o.limit_keys) from oldest o
    ) k
    cross join lateral scheduled_actions_limit(k.limit_key, '') l
    where l.pattern is null
    order by k.limit_key
    limit %(most_names)s
  ),
  (
    select count(*)
    from (
      select s.action_id, s.claim_token
      from scheduled_action_limit_slots s
      where s.acquired_at < scheduled_actions_now() - make_interval(secs => %(seconds)s)
        and coalesce(s.busy_until < scheduled_actions_now() - make_interval(secs => %(seconds)s), true)
      order by s.acquired_at
      limit %(most)s
    ) s
    where not exists (select from scheduled_actions a where a.id = s.action_id and a.claim_token = s.claim_token)
  ),
  (
    select count(*)
    from scheduled_action_pauses p
    where p.ends_at is null or p.ends_at > scheduled_actions_now()
  ),
  array(
    select jsonb_build_array(p.kind, p.name)
    from scheduled_action_pauses p
    where p.ends_at is null and p.paused_at < scheduled_actions_now() - interval '1 day'
    order by p.paused_at
    limit %(most_names)s
  )
