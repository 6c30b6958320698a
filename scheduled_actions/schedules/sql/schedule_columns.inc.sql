-- Columns of a schedule `s`, and the time; readers rely on their order.
s.recurrence, s.timezone, s.anchor_at, s.skip, s.until,
s.id, s.action_type, s.kind, s.recurrence_type, s.misfire, s.misfire_grace_seconds, s.catch_up_limit,
s.catch_up_seconds, s.overlap, s.jitter_seconds, s.remaining, s.pause_after_failures, s.next_occurrence_at,
s.name, s.payload, s.team_id, s.requires_previous, s.consecutive_failures, s.priority, s.max_attempts, s.retry,
s.lock_group, s.lock_group_blocks, s.limit_keys, s.expires_seconds, s.on_expiry, s.target_type, s.target_id, s.user_id,
s.metadata, s.condition, s.on_success, s.on_failure,
s.status, s.status_reason, s.status_by, s.status_at, s.next_action_id, s.last_action_id, s.last_occurrence_at,
s.executions, s.skipped, s.missed, s.definition, s.is_declared, s.created_by, s.created_at, s.updated_at,
scheduled_actions_now()
