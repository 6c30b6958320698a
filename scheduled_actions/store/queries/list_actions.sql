-- The newest actions before the cursor that match every filter given.
select
  a.id, a.action_type, a.status, a.payload, a.team_id, a.priority, a.scheduled_at, a.occurrence_at, a.started_at,
  a.completed_at, a.error_message, a.attempts, a.max_attempts, a.result, a.state, a.metadata, a.history, a.target_type,
  a.target_id, a.user_id, a.created_by, a.schedule_id, a.deadline_id, a.dedup_key, a.lock_group, a.lock_group_blocks,
  a.cancel_requested_at, a.lease_expires_at, a.created_at, a.updated_at, a.condition, a.claim_token,
  a.waiting, a.on_success, a.on_failure
from scheduled_actions a
where (%(before)s::uuid is null or a.id < %(before)s)
  and (%(status)s::text is null or a.status = %(status)s)
  and (%(action_type)s::text is null or a.action_type = %(action_type)s)
  and (%(team_id)s::text is null or a.team_id = %(team_id)s)
  and (%(lock_group)s::text is null or a.lock_group = %(lock_group)s)
  and (%(scheduled_from)s::timestamptz is null or a.scheduled_at >= %(scheduled_from)s)
  and (%(scheduled_to)s::timestamptz is null or a.scheduled_at < %(scheduled_to)s)
  and (
    %(q)s::text is null
    or strpos(a.id::text, %(q)s) = 1
    or strpos(a.action_type, %(q)s) > 0
    or strpos(a.dedup_key, %(q)s) > 0
    or strpos(a.lock_group, %(q)s) > 0
  )
order by a.id desc
limit %(limit)s
