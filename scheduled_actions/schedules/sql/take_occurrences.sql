-- The schedules whose planned occurrence is among these actions, claimed by this token, locked for the rest of the transaction,
-- save those that somebody is changing at this moment. Beside each: since when another occurrence of it is at work, since when
-- one waits for its condition, where occurrences have one, and whether one waits for a handler. They are found among what is at
-- work, or waits so: a series may have a long past. Of the schedule no more is read than planning needs. `array(select …)`
-- has the planner neither weigh a hundred ids one by one nor read the whole table instead.
with met as materialized (
  select m.action_id, m.schedule_id
  from unnest(%(action_ids)s::uuid[], %(schedule_ids)s::uuid[]) as m (action_id, schedule_id)
),
at_work as materialized (
  select a.schedule_id, min(a.updated_at) as running_since
  from scheduled_actions a
  where a.status = 'processing'
    and a.lease_expires_at > '-infinity'
    and a.claim_token <> %(token)s
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
  s.id, s.action_type, s.recurrence, s.kind, s.timezone, extract(epoch from s.anchor_at)::float8, s.recurrence_type,
  s.misfire, s.misfire_grace_seconds, s.catch_up_limit, s.catch_up_seconds, s.overlap, s.skip, s.jitter_seconds,
  extract(epoch from s.until)::float8, s.remaining, s.pause_after_failures,
  extract(epoch from s.next_occurrence_at)::float8
from met m
join scheduled_action_schedules s on s.id = m.schedule_id and s.next_action_id = m.action_id
left join at_work w on w.schedule_id = s.id
left join unhandled u on u.schedule_id = s.id
where s.id = any (array(select m.schedule_id from met m))
for update of s skip locked
