-- The pending action has the given changes. No row if it is not pending, or is due within `edit_lock_seconds` (null: no
-- lock).
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
  -- Due actions are parked; the claims find it again at its new time.
  parked_by = case
    when coalesce(%(scheduled_at)s, scheduled_actions_now() + %(delay)s::interval) > scheduled_actions_now() then null
    else a.parked_by
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
returning
  -- include: actions/action_columns
