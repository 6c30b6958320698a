-- Columns of a claimed action `a`; readers rely on their order.
a.id, a.action_type, a.priority, date_part('epoch', a.scheduled_at), a.scheduled_at::text, a.attempts,
a.max_attempts, a.lock_group, a.lock_group_blocks, a.history -> -1 ->> 'outcome', a.payload::text, a.state::text,
a.retry::text, a.metadata::text, nullif(a.history, '[]')::text, a.team_id, a.error_message, a.target_type, a.target_id,
a.user_id, a.created_by, a.schedule_id, a.deadline_id, a.scheduled_by, a.dedup_key,
date_part('epoch', a.occurrence_at), date_part('epoch', a.previous_occurrence_at),
date_part('epoch', a.started_at), date_part('epoch', a.created_at), a.condition::text,
a.on_success is not null or a.on_failure is not null, a.limit_keys, date_part('epoch', a.expires_at),
coalesce(a.on_expiry = 'fail', false),
case when a.expires_at is not null and a.expires_at <= scheduled_actions_now() then coalesce(a.parked_by, '') end
