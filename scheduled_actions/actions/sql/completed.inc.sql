-- Completes the actions whose claim is still valid, as described in `scheduled_actions_complete`.
with completed as (
  update scheduled_actions a
  set
    status = 'completed',
    attempts = least(greatest(a.attempts, 0), 2147483646) + 1,
    max_attempts = coalesce(a.max_attempts, o.max_attempts),
    started_at = begun_at + o.started * interval '1 microsecond',
    completed_at = begun_at + o.ended * interval '1 microsecond',
    error_message = null,
    result = coalesce(nullif(o.result, 'null')::jsonb, a.result),
    claim_token = null,
    lease_expires_at = null,
    executor = null,
    announced_at = null,
    worker_id = null,
    updated_at = scheduled_actions_now()
  from unnest(ids, tokens, started, ended, attempts_allowed, results)
    as o (id, token, started, ended, max_attempts, result)
  where a.id = o.id
    -- So that the plan reads the actions by id, whatever the size of the table when it was made.
    and a.id = any (ids)
    and a.claim_token = o.token
    and (
      a.schedule_id is null
      or not exists (
        select
        from scheduled_action_schedules s
        where s.id = a.schedule_id
          and (s.recurrence_type = 'rolling' or s.pause_after_failures is not null or s.next_action_id = a.id)
      )
    )
  returning a.id, o.token
)
