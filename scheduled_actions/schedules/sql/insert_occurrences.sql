-- The occurrences of the schedule are stored as due now; those created before are unchanged.
insert into scheduled_actions (
  action_type, payload, team_id, priority, scheduled_at, occurrence_at, max_attempts, retry, lock_group,
  lock_group_blocks, target_type, target_id, user_id, metadata, created_by, schedule_id,
  condition, on_success, on_failure, limit_keys, parked_by, expires_at, on_expiry
)
select
  s.action_type, s.payload, s.team_id, s.priority, scheduled_actions_now(), t.occurrence_at, s.max_attempts, s.retry,
  -- In sequence if they must not run concurrently.
  case when s.overlap = 'allow' then s.lock_group else coalesce(s.lock_group, 'schedule:' || s.id) end,
  s.lock_group_blocks, s.target_type, s.target_id, s.user_id, s.metadata, %(by)s, s.id,
  s.condition, s.on_success, s.on_failure, s.limit_keys,
  case when s.limit_keys is not null then 'limit' end,
  scheduled_actions_now() + make_interval(secs => s.expires_seconds), s.on_expiry
from scheduled_action_schedules s
cross join unnest(%(occurrences)s::timestamptz[]) with ordinality as t (occurrence_at, position)
where s.id = %(schedule_id)s
order by t.position
on conflict (schedule_id, occurrence_at) where schedule_id is not null do nothing
returning id
