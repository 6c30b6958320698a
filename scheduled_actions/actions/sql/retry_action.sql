-- A failed, cancelled or skipped action is pending again with zero attempts. No row if it has another status.
update scheduled_actions a
set
  status = 'pending',
  attempts = 0,
  scheduled_at = scheduled_actions_now(),
  completed_at = null,
  cancel_requested_at = null,
  error_message = null,
  state = null,
  waiting = null,
  expires_at = null,
  on_expiry = null,
  parked_by = null,
  history = scheduled_actions_append_history(a.history, jsonb_build_object(
    'outcome', 'retried', 'at', scheduled_actions_now(), 'by', %(by)s::text)),
  updated_at = scheduled_actions_now()
where a.id = %(id)s
  and a.status in ('failed', 'cancelled', 'skipped')
  and (%(team_id)s::text is null or a.team_id = %(team_id)s)
returning
  -- include: actions/action_columns
