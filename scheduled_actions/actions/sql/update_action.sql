-- The pending action with what was given changed; no row when it is not pending, or is locked and nothing forces it.
-- One that waits for a condition which is another one now, or gone, is due: the tick that takes it registers what it waits for
-- and looks after that, so that no change in between is missed.
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
  condition = case when %(sets_condition)s then %(condition)s::jsonb else a.condition end,
  waiting = case when %(sets_condition)s and a.condition is distinct from %(condition)s::jsonb then null else a.waiting end,
  on_success = case when %(sets_on_success)s then %(on_success)s::jsonb else a.on_success end,
  on_failure = case when %(sets_on_failure)s then %(on_failure)s::jsonb else a.on_failure end,
  priority = coalesce(%(priority)s, a.priority),
  max_attempts = coalesce(%(max_attempts)s, a.max_attempts),
  retry = coalesce(%(retry)s::jsonb, a.retry),
  metadata = coalesce(%(metadata)s::jsonb, a.metadata),
  history = scheduled_actions_history_with(a.history, jsonb_build_object(
    'outcome', 'updated', 'at', scheduled_actions_now(), 'by', %(by)s::text, 'changes', %(changes)s::jsonb)),
  updated_at = scheduled_actions_now()
where a.id = %(id)s
  and a.status = 'pending'
  and (%(team_id)s::text is null or a.team_id = %(team_id)s)
  and (%(edit_lock_seconds)s::int is null
       or a.scheduled_at > scheduled_actions_now() + make_interval(secs => %(edit_lock_seconds)s))
returning
  -- include: actions/action_columns
