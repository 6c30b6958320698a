-- Returns and locks the schedules whose planned occurrence is among these actions, which this token has claimed, except
-- schedules that another transaction has locked.
-- Each row also has: when another running occurrence was claimed, when another one began to wait for its condition
-- (only with the overlap policy `skip`), whether another one has the status `no_action`, and the previous occurrence, if
-- it is required and has not completed. The others are searched among running and waiting actions, because a series can
-- have a long history.
-- Returns only the columns that planning needs. `array(select …)` keeps the planner from estimating a hundred ids one
-- by one and from reading the whole table.
with met as materialized (
  select m.action_id, m.schedule_id
  from unnest(%(action_ids)s::uuid[], %(schedule_ids)s::uuid[]) as m (action_id, schedule_id)
),
at_work as materialized (
  select a.schedule_id, min(a.updated_at) as running_since
  from scheduled_actions a
  join scheduled_action_schedules s on s.id = a.schedule_id
  where a.status = 'processing'
    and a.lease_expires_at > '-infinity'
    and a.id <> s.next_action_id
    and a.schedule_id in (select m.schedule_id from met m)
  group by a.schedule_id
),
unhandled as materialized (
  select distinct a.schedule_id
  from scheduled_actions a
  where a.status = 'no_action'
    and a.action_type = any (%(action_types)s::text[])
    and a.schedule_id in (select m.schedule_id from met m)
)
select
  extract(epoch from scheduled_actions_now())::float8,
  s.next_action_id,
  extract(epoch from w.running_since)::float8,
  case when s.overlap = 'skip' and s.condition ? 'wait' then (
    select extract(epoch from min(scheduled_actions_stored_instant(a.waiting ->> 'since')))::float8
    from scheduled_actions a
    where a.schedule_id = s.id
      and a.waiting is not null
      and a.status in ('pending', 'processing')
      and a.attempts = 0
      and a.id <> s.next_action_id
  ) end,
  u.schedule_id is not null,
  p.id, p.status, extract(epoch from p.occurrence_at)::float8, extract(epoch from p.updated_at)::float8,
  s.recurrence, s.timezone, extract(epoch from s.anchor_at)::float8, s.skip, extract(epoch from s.until)::float8,
  s.id, s.action_type, s.kind, s.recurrence_type, s.misfire, s.misfire_grace_seconds, s.catch_up_limit,
  s.catch_up_seconds, s.overlap, s.jitter_seconds, s.remaining, s.pause_after_failures,
  extract(epoch from s.next_occurrence_at)::float8
from met m
join scheduled_action_schedules s on s.id = m.schedule_id and s.next_action_id = m.action_id
left join at_work w on w.schedule_id = s.id
left join unhandled u on u.schedule_id = s.id
left join lateral (
  -- include: schedules/previous_occurrence
) p on true
where s.id = any (array(select m.schedule_id from met m))
for update of s skip locked
