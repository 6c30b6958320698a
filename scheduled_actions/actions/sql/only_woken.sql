-- Returns waiting actions that only a change makes due, at most `most`, by id, after `after_id` (null: after the last one
-- of the last sweep; if none follows, the next sweep starts with the first one). None if the last sweep was less than
-- `every_seconds` ago.
-- The instant is a range, not a value: with a value, the planner may read all actions by id until enough are found.
with recursive
-- include: actions/waiting_priorities,
last as materialized (
  select s.value, s.updated_at from scheduled_action_settings s where s.name = 'waits_sweep'
),
position as materialized (
  select coalesce(
    %(after_id)s::uuid, (select (l.value #>> '{}')::uuid from last l), '00000000-0000-0000-0000-000000000000') as after_id
  where %(after_id)s::uuid is not null
    or not exists (
      select from last l where l.updated_at > scheduled_actions_now() - make_interval(secs => %(every_seconds)s)
    )
),
found as (
  select o.id
  from position s
  cross join free p
  cross join lateral (
    select a.id
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority = p.priority
      and (a.scheduled_at, a.id) > (scheduled_actions_never(), s.after_id) and a.scheduled_at <= scheduled_actions_never()
      and a.waiting is not null
    order by a.scheduled_at, a.id
    limit %(most)s
  ) o
  union all
  select o.id
  from position s
  cross join grouped p
  cross join lateral (
    select a.id
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is not null and a.parked_by is null and a.priority = p.priority
      and (a.scheduled_at, a.id) > (scheduled_actions_never(), s.after_id) and a.scheduled_at <= scheduled_actions_never()
      and a.waiting is not null
    order by a.scheduled_at, a.id
    limit %(most)s
  ) o
),
restarted as (
  update scheduled_action_settings s
  set value = 'null'
  where s.name = 'waits_sweep' and s.value <> 'null'
    and exists (select from position) and not exists (select from found)
)
select a.id, coalesce(a.team_id, ''), a.condition::text, date_part('epoch', a.created_at)
from scheduled_actions a
where a.id = any (array(select f.id from found f order by f.id limit %(most)s))
order by a.id
