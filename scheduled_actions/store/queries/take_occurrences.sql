-- The schedules whose planned occurrence is among these claimed actions, locked for the rest of the transaction; one that
-- somebody is changing at this moment has no id here, only its planned action. Beside each: since when another
-- occurrence of it is at work, since when another waits for its condition, and whether one waits for a handler. All are
-- found among what is at work, or waits so: a series may have a long past. What planning does not need stays where it is: reading it would take as long.
with pointed as materialized (
  select p.id, p.next_action_id as action_id
  from scheduled_action_schedules p
  where p.next_action_id = any (%(action_ids)s::uuid[])
),
taken as materialized (
  select s.*
  from scheduled_action_schedules s
  where s.id = any (array(select p.id from pointed p)) and s.next_action_id = any (%(action_ids)s::uuid[])
  order by s.id
  for update skip locked
),
at_work as materialized (
  select a.schedule_id, min(a.updated_at) as running_since
  from scheduled_actions a
  where a.status = 'processing'
    and a.lease_expires_at > '-infinity'
    and a.schedule_id = any (array(select t.id from taken t))
    and a.id <> all (%(action_ids)s::uuid[])
  group by a.schedule_id
),
waited as materialized (
  select t.id as schedule_id, min((a.waiting ->> 'since')::timestamptz) as waiting_since
  from taken t
  join scheduled_actions a on a.schedule_id = t.id
  where t.overlap = 'skip'
    and t.condition ? 'wait'
    and a.schedule_id is not null
    and a.waiting is not null
    and a.status in ('pending', 'processing')
    and a.attempts = 0
    and a.id <> t.next_action_id
  group by t.id
),
unhandled as materialized (
  select distinct a.schedule_id
  from scheduled_actions a
  where a.status = 'no_action'
    and a.action_type = any (array(select t.action_type from taken t))
    and a.schedule_id = any (array(select t.id from taken t))
)
select
  s.id, s.name, s.action_type, null::jsonb, s.team_id, s.recurrence, s.kind, s.timezone, s.anchor_at, s.recurrence_type,
  s.misfire, s.misfire_grace_seconds, s.catch_up_limit, s.catch_up_seconds, s.overlap, s.skip, s.jitter_seconds, s.until,
  s.remaining, s.pause_after_failures, s.consecutive_failures, s.priority, s.max_attempts, null::jsonb, s.lock_group,
  s.lock_group_blocks, s.target_type, s.target_id, s.user_id, null::jsonb, null::jsonb, null::jsonb, null::jsonb, s.status,
  s.status_note, s.status_by,
  null::timestamptz, s.next_action_id, s.next_occurrence_at, s.last_action_id, s.last_occurrence_at, s.executions, s.skipped,
  s.missed, null::jsonb, s.is_declared, s.created_by, null::timestamptz, null::timestamptz,
  scheduled_actions_now(),
  p.action_id,
  extract(epoch from w.running_since)::float8,
  extract(epoch from e.waiting_since)::float8,
  u.schedule_id is not null
from pointed p
left join taken s on s.next_action_id = p.action_id
left join at_work w on w.schedule_id = s.id
left join waited e on e.schedule_id = s.id
left join unhandled u on u.schedule_id = s.id
