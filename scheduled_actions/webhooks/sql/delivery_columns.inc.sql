-- Columns of a delivery `d`, in the order of the fields of `Delivery`.
d.id, d.status, d.endpoint, d.team_id, d.event, d.entity_type, d.entity_id, d.attempts, d.max_attempts, d.next_attempt_at,
d.response_status, d.error, d.attempt_log, d.event_action_id, d.lock_group, d.started_at, d.completed_at, d.created_at
