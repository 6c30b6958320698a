-- The values of `new_action_columns` and `scheduled_by` of a row `item`.
item.id, item.action_type, item.payload, item.team_id, item.priority, item.scheduled_at, item.max_attempts,
item.retry, item.lock_group, item.lock_group_blocks, item.dedup_key, item.dedup_event, item.dedup_open,
item.target_type, item.target_id, item.user_id, item.metadata, item.created_by, item.condition, item.on_success,
item.on_failure, item.limit_keys,
case when item.limit_keys is not null and item.scheduled_at <= scheduled_actions_now() then 'limit' end,
item.expires_at, item.on_expiry, item.scheduled_by
