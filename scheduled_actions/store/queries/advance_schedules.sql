-- Each schedule has taken its step: what was counted is counted, its next occurrence is planned and pointed to.
-- Answers a row per schedule; `collided` where the wanted occurrence had been created before.
with step as materialized (
  select t.*
  from jsonb_to_recordset(%(steps)s::jsonb) as t (
    schedule_id uuid, occurrence_at timestamptz, scheduled_at timestamptz, previous_at timestamptz,
    last_action_id uuid, last_occurrence_at timestamptz, executed integer, skipped integer, missed integer,
    failures integer, status text, note text, status_by text, keeps_pointer boolean
  )
),
planned as (
  insert into scheduled_actions (
    action_type, payload, team_id, priority, scheduled_at, occurrence_at, previous_occurrence_at, max_attempts, retry,
    lock_group, lock_group_blocks, target_type, target_id, user_id, metadata, created_by, schedule_id,
    condition, on_success, on_failure
  )
  select
    s.action_type, s.payload, s.team_id, s.priority, t.scheduled_at, t.occurrence_at, t.previous_at, s.max_attempts,
    s.retry, case when s.overlap = 'queue' then coalesce(s.lock_group, 'schedule:' || s.id) else s.lock_group end,
    s.lock_group_blocks, s.target_type, s.target_id, s.user_id, s.metadata, s.created_by, s.id,
    s.condition, s.on_success, s.on_failure
  from step t
  join scheduled_action_schedules s on s.id = t.schedule_id
  where t.occurrence_at is not null
  on conflict (schedule_id, occurrence_at) where schedule_id is not null do nothing
  returning id, schedule_id, occurrence_at
)
update scheduled_action_schedules s
set
  next_action_id = case when t.keeps_pointer then s.next_action_id else p.id end,
  next_occurrence_at = case when t.keeps_pointer then s.next_occurrence_at else p.occurrence_at end,
  last_action_id = coalesce(t.last_action_id, s.last_action_id),
  last_occurrence_at = greatest(s.last_occurrence_at, t.last_occurrence_at),
  executions = s.executions + coalesce(t.executed, 0),
  remaining = s.remaining - least(coalesce(t.executed, 0), s.remaining),
  skipped = s.skipped + coalesce(t.skipped, 0),
  missed = s.missed + coalesce(t.missed, 0),
  consecutive_failures = coalesce(t.failures, s.consecutive_failures),
  status = coalesce(t.status, s.status),
  status_note = case when t.status is null then s.status_note else t.note end,
  status_by = case when t.status is null then s.status_by else t.status_by end,
  status_at = case when t.status is null then s.status_at else scheduled_actions_now() end,
  updated_at = scheduled_actions_now()
from step t
left join planned p on p.schedule_id = t.schedule_id
where s.id = t.schedule_id
returning s.id, t.occurrence_at is not null and p.id is null as collided
