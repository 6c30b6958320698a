-- The latest actions of a schedule that were started or have ended, the newest first: its occurrences, and the runs that
-- somebody asked for. Two short walks of the index on occurrences, however many there are.
select
  a.id, a.action_type, a.status, a.payload, a.team_id, a.priority, a.scheduled_at, a.occurrence_at, a.started_at,
  a.completed_at, a.error_message, a.attempts, a.max_attempts, a.result, a.state, a.metadata, a.history, a.target_type,
  a.target_id, a.user_id, a.created_by, a.schedule_id, a.deadline_id, a.dedup_key, a.lock_group, a.lock_group_blocks,
  a.cancel_requested_at, a.lease_expires_at, a.created_at, a.updated_at, a.condition, a.claim_token,
  a.waiting, a.on_success, a.on_failure, a.scheduled_by, a.retry
from scheduled_actions a
where a.id = any (array(
  (
    select o.id
    from scheduled_actions o
    where o.schedule_id = %(schedule_id)s
      and o.occurrence_at is not null
      and (o.status <> 'pending' or o.started_at is not null)
    order by o.occurrence_at desc
    limit %(limit)s
  )
  union all
  (
    select r.id
    from scheduled_actions r
    where r.schedule_id = %(schedule_id)s
      and r.occurrence_at is null
      and (r.status <> 'pending' or r.started_at is not null)
    order by r.id desc
    limit %(limit)s
  )
))
order by coalesce(a.occurrence_at, a.created_at) desc, a.id desc
limit %(limit)s
