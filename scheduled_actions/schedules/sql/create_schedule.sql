-- The schedule is stored without a planned occurrence. No row if its name is taken. Also returns an active schedule that
-- was created by the same call, if neither has a name.
insert into scheduled_action_schedules (
  name, action_type, payload, team_id, recurrence, kind, timezone, anchor_at, recurrence_type, misfire,
  misfire_grace_seconds, catch_up_limit, catch_up_seconds, overlap, requires_previous, skip, jitter_seconds, until,
  remaining, pause_after_failures, priority, max_attempts, retry, lock_group, lock_group_blocks, limit_keys,
  expires_seconds, on_expiry, target_type, target_id, user_id, metadata, condition, on_success, on_failure, definition,
  is_declared, created_by
)
values (
  %(name)s, %(action_type)s, %(payload)s::jsonb, %(team_id)s, %(recurrence)s, %(kind)s, %(timezone)s, %(anchor_at)s,
  %(recurrence_type)s, %(misfire)s, %(misfire_grace_seconds)s, %(catch_up_limit)s, %(catch_up_seconds)s, %(overlap)s,
  %(requires_previous)s, %(skip)s::jsonb, %(jitter_seconds)s, %(until)s, %(remaining)s, %(pause_after_failures)s,
  %(priority)s, %(max_attempts)s, %(retry)s::jsonb, %(lock_group)s, %(lock_group_blocks)s,
  %(limit)s::text[], %(expires_in)s, %(on_expiry)s,
  %(target)s::jsonb ->> 'type', %(target)s::jsonb ->> 'id', %(user_id)s, %(metadata)s::jsonb, %(condition)s::jsonb,
  %(on_success)s::jsonb, %(on_failure)s::jsonb, %(definition)s::jsonb, %(is_declared)s, %(created_by)s
)
on conflict (name, coalesce(team_id, '')) where name is not null do nothing
returning
  id,
  (
    select s.id
    from scheduled_action_schedules s
    where %(name)s::text is null and s.name is null and s.definition = %(definition)s::jsonb and s.status = 'active'
    limit 1
  )
