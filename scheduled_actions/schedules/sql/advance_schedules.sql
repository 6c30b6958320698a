-- Each schedule is advanced: its counters are updated, and its next occurrence is planned and referenced.
-- Returns the schedules whose occurrence already existed, and its instant: these schedules have no planned occurrence, and
-- another step must follow in the same transaction.
-- Counters stop at the limit of their type. A null array changes nothing; without `action_ids`, the ids are random.
with step as materialized (
  select t.*, case when t.occurrence_at is not null then coalesce(t.given_id, scheduled_actions_uuid7()) end as action_id
  from unnest(
    %(schedule_id)s::uuid[], %(occurrence_at)s::timestamptz[], %(scheduled_at)s::timestamptz[], %(is_past)s::boolean[],
    %(executed)s::integer[], %(skipped)s::integer[], %(missed)s::integer[], %(failures)s::integer[], %(status)s::text[],
    %(reason)s::text[], %(status_by)s::text[], %(keeps_pointer)s::boolean[], %(action_ids)s::uuid[]
  ) as t (
    schedule_id, occurrence_at, scheduled_at, is_past, executed, skipped, missed, failures, status, reason, status_by,
    keeps_pointer, given_id
  )
),
moved as (
  update scheduled_action_schedules s
  set
    next_action_id = case when t.keeps_pointer then s.next_action_id else t.action_id end,
    next_occurrence_at = case when t.keeps_pointer then s.next_occurrence_at else t.occurrence_at end,
    last_action_id = case when t.is_past then s.next_action_id else s.last_action_id end,
    last_occurrence_at = case when t.is_past then greatest(s.last_occurrence_at, s.next_occurrence_at)
      else s.last_occurrence_at end,
    executions = least(s.executions, 9223372034707292160) + coalesce(t.executed, 0),
    remaining = s.remaining - least(coalesce(t.executed, 0), s.remaining),
    skipped = least(s.skipped, 9223372034707292160) + coalesce(t.skipped, 0),
    missed = least(s.missed, 9223372034707292160) + coalesce(t.missed, 0),
    consecutive_failures = coalesce(t.failures, s.consecutive_failures),
    status = coalesce(t.status, s.status),
    status_reason = case when t.status is null then s.status_reason else t.reason end,
    status_by = case when t.status is null then s.status_by else t.status_by end,
    status_at = case when t.status is null then s.status_at else scheduled_actions_now() end,
    updated_at = scheduled_actions_now()
  from step t
  -- By key even if there are few schedules, because reading all of them takes longer.
  where s.id = t.schedule_id and s.id = any (array(select t.schedule_id from step t))
  returning
    s.id, s.action_type, s.payload, s.team_id, s.priority, s.last_occurrence_at, s.max_attempts, s.retry, s.overlap,
    s.lock_group, s.lock_group_blocks, s.target_type, s.target_id, s.user_id, s.metadata, s.created_by, s.condition,
    s.on_success, s.on_failure, s.limit_keys, s.expires_seconds, s.on_expiry,
    t.action_id, t.occurrence_at, coalesce(t.scheduled_at, t.occurrence_at) as scheduled_at
),
planned as (
  insert into scheduled_actions (
    id, action_type, payload, team_id, priority, scheduled_at, occurrence_at, previous_occurrence_at, max_attempts, retry,
    lock_group, lock_group_blocks, target_type, target_id, user_id, metadata, created_by, schedule_id,
    condition, on_success, on_failure, limit_keys, parked_by, expires_at, on_expiry
  )
  select
    s.action_id, s.action_type, s.payload, s.team_id, s.priority, s.scheduled_at, s.occurrence_at, s.last_occurrence_at,
    s.max_attempts, s.retry,
    case when s.overlap = 'queue' then coalesce(s.lock_group, 'schedule:' || s.id) else s.lock_group end,
    s.lock_group_blocks, s.target_type, s.target_id, s.user_id, s.metadata, s.created_by, s.id,
    s.condition, s.on_success, s.on_failure, s.limit_keys,
    case when s.limit_keys is not null and s.scheduled_at <= scheduled_actions_now() then 'limit' end,
    scheduled_actions_clamp_instant(s.scheduled_at + make_interval(secs => s.expires_seconds)), s.on_expiry
  from moved s
  where s.occurrence_at is not null
  on conflict (schedule_id, occurrence_at) where schedule_id is not null do nothing
  returning id
)
select s.id, s.occurrence_at
from moved s
where s.occurrence_at is not null and not exists (select from planned p where p.id = s.action_id)
