-- Columns of an action `a`; readers rely on their order.
a.id, a.action_type, a.status, a.payload, a.team_id, a.priority, a.scheduled_at, a.occurrence_at, a.started_at,
a.completed_at, a.error_message, a.attempts, a.max_attempts, a.result, a.state, a.metadata, a.history, a.target_type,
a.target_id, a.user_id, a.created_by, a.schedule_id, a.deadline_id, a.dedup_key, a.lock_group, a.lock_group_blocks,
a.cancel_requested_at, a.lease_expires_at, a.created_at, a.updated_at, a.condition, a.claim_token,
a.waiting, a.on_success, a.on_failure, a.scheduled_by, a.retry, a.limit_keys,
case when a.status = 'pending' then a.parked_by end as parked_by, a.expires_at, a.on_expiry
