-- Returns whether this holder still has the linger lease, whether actions are due, the seconds until the next action
-- becomes due (null if none does within `window_seconds`), whether there are changes that actions may wait for,
-- whether a pending action has passed its expires_at, whether a pause has ended, and whether executors exist.
with recursive
-- include: actions/waiting_priorities,
ahead (first_at, next_at) as (
  select f.scheduled_at, n.scheduled_at
  from free p
  left join lateral (
    select a.scheduled_at
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority = p.priority
    order by a.scheduled_at
    limit 1
  ) f on true
  left join lateral (
    select a.scheduled_at
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority = p.priority
      and a.scheduled_at > scheduled_actions_now()
      and a.scheduled_at <= scheduled_actions_now() + make_interval(secs => %(window_seconds)s)
    order by a.scheduled_at
    limit 1
  ) n on true
  union all
  select f.scheduled_at, n.scheduled_at
  from grouped p
  left join lateral (
    select a.scheduled_at
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is not null and a.parked_by is null and a.priority = p.priority
    order by a.scheduled_at
    limit 1
  ) f on true
  left join lateral (
    select a.scheduled_at
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is not null and a.parked_by is null and a.priority = p.priority
      and a.scheduled_at > scheduled_actions_now()
      and a.scheduled_at <= scheduled_actions_now() + make_interval(secs => %(window_seconds)s)
    order by a.scheduled_at
    limit 1
  ) n on true
)
select
  coalesce((select s.value = to_jsonb(%(holder)s::text) from scheduled_action_settings s where s.name = 'linger_lease'), false),
  coalesce((select min(h.first_at) from ahead h) <= scheduled_actions_now(), false),
  extract(epoch from (select min(h.next_at) from ahead h) - scheduled_actions_now())::float8,
  (select w.id from scheduled_action_wakes w order by w.id limit 1) is not null,
  coalesce((
    select a.expires_at
    from scheduled_actions a
    where a.status = 'pending' and a.expires_at is not null
    order by a.expires_at
    limit 1
  ) <= scheduled_actions_now(), false),
  exists (select from scheduled_action_pauses p where p.ends_at <= scheduled_actions_now()),
  exists (select from scheduled_action_executors)
