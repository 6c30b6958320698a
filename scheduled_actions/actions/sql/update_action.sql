-- The pending action has the given changes. No row if it is not pending, is due within `edit_lock_seconds` (null: no
-- lock), or would expire before it could start.
-- If the action was waiting for the next check of its condition, and that condition is changed or removed, the action
-- is due, unless another time is given. The next tick registers its topics before it evaluates the condition, so that
-- no change is missed.
update scheduled_actions a
set
  payload = coalesce(%(payload)s::jsonb, a.payload),
  scheduled_at = coalesce(
    %(scheduled_at)s,
    scheduled_actions_now() + %(delay)s::interval,
    case when %(sets_condition)s
        and a.condition is distinct from %(condition)s::jsonb
        and a.scheduled_at = scheduled_actions_stored_instant(a.waiting ->> 'next_check_at')
      then least(a.scheduled_at, scheduled_actions_now()) end,
    a.scheduled_at),
  -- Due actions are parked; the claims find it again at its new time, or without limit keys. New keys move it to another queue.
  parked_by = case
    when coalesce(%(scheduled_at)s, scheduled_actions_now() + %(delay)s::interval) > scheduled_actions_now() then null
    -- It is parked again in the place that it has then.
    when a.parked_by like 'queue:%%' then null
    when %(sets_limit)s and %(limit)s::text[] is null then nullif(a.parked_by, 'limit')
    else a.parked_by
  end,
  limit_keys = case when %(sets_limit)s then %(limit)s::text[] else a.limit_keys end,
  expires_at = case when %(sets_expires_at)s then %(expires_at)s else a.expires_at end,
  on_expiry = case
    when not %(sets_expires_at)s then a.on_expiry
    when %(expires_at)s::timestamptz is not null then coalesce(a.on_expiry, 'skip')
  end,
  condition = case when %(sets_condition)s then %(condition)s::jsonb else a.condition end,
  waiting = case when %(sets_condition)s and a.condition is distinct from %(condition)s::jsonb then null else a.waiting end,
  on_success = case when %(sets_on_success)s then %(on_success)s::jsonb else a.on_success end,
  on_failure = case when %(sets_on_failure)s then %(on_failure)s::jsonb else a.on_failure end,
  priority = coalesce(%(priority)s, a.priority),
  max_attempts = coalesce(%(max_attempts)s, a.max_attempts),
  retry = coalesce(%(retry)s::jsonb, a.retry),
  metadata = coalesce(%(metadata)s::jsonb, a.metadata),
  history = scheduled_actions_append_history(a.history, jsonb_build_object(
    'outcome', 'updated', 'at', scheduled_actions_now(), 'by', %(by)s::text, 'changes', %(changes)s::jsonb)),
  updated_at = scheduled_actions_now()
where a.id = %(id)s
  and a.status = 'pending'
  and (%(team_id)s::text is null or a.team_id = %(team_id)s)
  and (%(edit_lock_seconds)s::int is null
       or a.scheduled_at > scheduled_actions_now() + make_interval(secs => %(edit_lock_seconds)s))
  -- An action that waits for its condition can start before the next check.
  and coalesce(
    case
      when %(sets_expires_at)s then %(expires_at)s
      when coalesce(%(scheduled_at)s, scheduled_actions_now() + %(delay)s::interval) is not null then a.expires_at
    end > greatest(
      coalesce(
        %(scheduled_at)s, scheduled_actions_now() + %(delay)s::interval, case when a.waiting is null then a.scheduled_at end),
      scheduled_actions_now()),
    true)
returning
  -- include: actions/action_columns
