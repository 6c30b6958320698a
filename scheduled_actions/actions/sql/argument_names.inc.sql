-- Names of the arguments that elements of schedule_actions and follow-ups have in common.
'action_type', 'payload', 'scheduled_at', 'priority', 'max_attempts', 'retry', 'lock_group', 'lock_group_blocks',
'dedup_key', 'dedup_window', 'dedup_mode', 'target', 'user_id', 'metadata', 'created_by', 'condition', 'after',
'on_success', 'on_failure', 'delay', 'limit', 'expires_at', 'expires_in', 'on_expiry'
