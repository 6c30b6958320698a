-- The delivery of that id (in that team).
select
  d.id, d.status, d.endpoint, d.team_id, d.event, d.entity_type, d.entity_id, d.attempts, d.max_attempts, d.next_attempt_at,
  d.response_status, d.error, d.attempt_log, d.event_action_id, d.lock_group, d.started_at, d.completed_at, d.created_at
from webhook_deliveries d
where d.id = %(id)s
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
