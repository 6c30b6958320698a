-- The schedule has these values, and also its planned occurrence if it is pending and has never started. If the
-- condition has changed, an occurrence that was waiting for its next check is due now. If the options of the expiry
-- have changed, it expires at the new time after its due time.
with written as (
  update scheduled_action_schedules s
  set
    name = %(name)s,
    payload = coalesce(%(payload)s::jsonb, s.payload),
    recurrence = %(recurrence)s,
    kind = %(kind)s,
    timezone = %(timezone)s,
    anchor_at = %(anchor_at)s,
    recurrence_type = %(recurrence_type)s,
    misfire = %(misfire)s,
    misfire_grace_seconds = %(misfire_grace_seconds)s,
    catch_up_limit = %(catch_up_limit)s,
    catch_up_seconds = %(catch_up_seconds)s,
    overlap = %(overlap)s,
    requires_previous = %(requires_previous)s,
    skip = %(skip)s::jsonb,
    jitter_seconds = %(jitter_seconds)s,
    until = %(until)s,
    remaining = %(remaining)s,
    pause_after_failures = %(pause_after_failures)s,
    priority = %(priority)s,
    max_attempts = %(max_attempts)s,
    retry = %(retry)s::jsonb,
    lock_group = %(lock_group)s,
    lock_group_blocks = %(lock_group_blocks)s,
    limit_keys = %(limit)s::text[],
    expires_seconds = %(expires_in)s,
    on_expiry = %(on_expiry)s,
    target_type = %(target)s::jsonb ->> 'type',
    target_id = %(target)s::jsonb ->> 'id',
    user_id = %(user_id)s,
    metadata = %(metadata)s::jsonb,
    condition = %(condition)s::jsonb,
    on_success = %(on_success)s::jsonb,
    on_failure = %(on_failure)s::jsonb,
    definition = %(definition)s::jsonb,
    is_declared = %(is_declared)s,
    requested = case when %(keeps_request)s then s.requested end,
    updated_at = scheduled_actions_now()
  where s.id = %(schedule_id)s
  returning s.*
)
update scheduled_actions a
set
  payload = w.payload,
  priority = w.priority,
  max_attempts = w.max_attempts,
  retry = w.retry,
  lock_group = case when w.overlap = 'queue' then coalesce(w.lock_group, 'schedule:' || w.id) else w.lock_group end,
  lock_group_blocks = w.lock_group_blocks,
  limit_keys = w.limit_keys,
  -- Claims park it again if the limits or pauses that now apply hold it back.
  parked_by = null,
  -- While it waits for its condition, scheduled_at is the time of the next check, or never; the old expiry leads to its due
  -- time.
  expires_at = case
    when e.is_new then scheduled_actions_clamp_instant(
      coalesce(
        a.expires_at - make_interval(secs => o.expires_seconds),
        case when a.scheduled_at = scheduled_actions_never() then a.occurrence_at end,
        a.scheduled_at)
      + make_interval(secs => w.expires_seconds))
    else a.expires_at
  end,
  on_expiry = case when e.is_new then w.on_expiry else a.on_expiry end,
  target_type = w.target_type,
  target_id = w.target_id,
  user_id = w.user_id,
  metadata = w.metadata,
  condition = w.condition,
  on_success = w.on_success,
  on_failure = w.on_failure,
  waiting = case when a.condition is not distinct from w.condition then a.waiting end,
  scheduled_at = case
    when a.condition is distinct from w.condition and a.scheduled_at = (a.waiting ->> 'next_check_at')::timestamptz
      then least(a.scheduled_at, scheduled_actions_now())
    else a.scheduled_at
  end,
  updated_at = scheduled_actions_now()
from written w
-- The schedule before the change.
join scheduled_action_schedules o on o.id = w.id
cross join lateral (
  select (w.expires_seconds, w.on_expiry) is distinct from (o.expires_seconds, o.on_expiry) as is_new
) e
where a.id = w.next_action_id and a.status = 'pending' and a.attempts = 0 and a.started_at is null
