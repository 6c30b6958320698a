-- A failed, cancelled or skipped action is pending again, its attempts back to zero; no row when it is none of these.
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
  history = scheduled_actions_history_with(a.history, jsonb_build_object(
    'outcome', 'retried', 'at', scheduled_actions_now(), 'by', %(by)s::text)),
  updated_at = scheduled_actions_now()
where a.id = %(id)s
  and a.status in ('failed', 'cancelled', 'skipped')
  and (%(team_id)s::text is null or a.team_id = %(team_id)s)
returning
  a.id, a.action_type, a.status, a.payload, a.team_id, a.priority, a.scheduled_at, a.occurrence_at, a.started_at,
  a.completed_at, a.error_message, a.attempts, a.max_attempts, a.result, a.state, a.metadata, a.history, a.target_type,
  a.target_id, a.user_id, a.created_by, a.schedule_id, a.deadline_id, a.dedup_key, a.lock_group, a.lock_group_blocks,
  a.cancel_requested_at, a.lease_expires_at, a.created_at, a.updated_at, a.condition, a.claim_token,
  a.waiting, a.on_success, a.on_failure, a.scheduled_by, a.retry
