-- The schedules whose planned occurrence is among these claimed actions, locked for the rest of the transaction; one that
-- somebody is changing at this moment has no id here, only its planned action. Beside each: since when another
-- occurrence of it is at work, and whether one waits for a handler. Payload and definition stay where they are: planning
-- needs neither.
with pointed as materialized (
  select p.next_action_id as action_id
  from scheduled_action_schedules p
  where p.next_action_id = any (%(action_ids)s::uuid[])
),
taken as materialized (
  select s.*
  from scheduled_action_schedules s
  where s.next_action_id = any (%(action_ids)s::uuid[])
  order by s.id
  for update skip locked
)
select
  s.id, s.name, s.action_type, null::jsonb, s.team_id, s.recurrence, s.kind, s.timezone, s.anchor_at, s.recurrence_type,
  s.misfire, s.misfire_grace_seconds, s.catch_up_limit, s.catch_up_seconds, s.overlap, s.skip, s.jitter_seconds, s.until,
  s.remaining, s.pause_after_failures, s.consecutive_failures, s.priority, s.max_attempts, s.retry, s.lock_group,
  s.lock_group_blocks, s.target_type, s.target_id, s.user_id, s.metadata, s.status, s.status_note, s.status_by,
  s.status_at, s.next_action_id, s.next_occurrence_at, s.last_action_id, s.last_occurrence_at, s.executions, s.skipped,
  s.missed, null::jsonb, s.is_declared, s.created_by, s.created_at, s.updated_at,
  scheduled_actions_now(),
  p.action_id,
  extract(epoch from o.running_since)::float8,
  coalesce(o.has_unhandled, false)
from pointed p
left join taken s on s.next_action_id = p.action_id
left join lateral (
  select
    min(a.updated_at) filter (where a.status = 'processing') as running_since,
    bool_or(a.status = 'no_action') as has_unhandled
  from scheduled_actions a
  where a.schedule_id = s.id and a.id <> p.action_id and a.status in ('processing', 'no_action')
) o on true
