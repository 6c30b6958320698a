-- The newest deliveries before the cursor that match every filter given.
select
  d.id, d.status, d.endpoint, d.team_id, d.event, d.entity_type, d.entity_id, d.attempts, d.max_attempts, d.next_attempt_at,
  d.response_status, d.error, d.attempt_log, d.event_action_id, d.lock_group, d.started_at, d.completed_at, d.created_at
from webhook_deliveries d
where (%(before)s::uuid is null or d.id < %(before)s)
  and (%(status)s::text is null or d.status = %(status)s)
  and (%(endpoint)s::text is null or d.endpoint = %(endpoint)s)
  and (%(event)s::text is null or d.event = %(event)s)
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
order by d.id desc
limit %(limit)s
