-- Columns that an insert of an action sets.
id, action_type, payload, team_id, priority, scheduled_at, max_attempts, retry, lock_group, lock_group_blocks,
dedup_key, dedup_event, dedup_open, target_type, target_id, user_id, metadata, created_by, condition, on_success,
on_failure, limit_keys, parked_by, expires_at, on_expiry
