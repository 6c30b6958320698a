-- Outcomes whose claim is still valid are stored, their holds and slots freed and their follow-ups scheduled, and the next starts
-- are announced. `refused` counts follow-ups that could not be scheduled. An outcome that lost its claim changes
-- nothing and returns no row.
-- `announced` is false if the tick's leases have ended (nothing may start then) or if there was nothing to announce.
-- Waits at most `patience_ms` for a row that another transaction has locked. Parts that no other part reads run in reverse
-- order: holds are locked before slots.
with patience as materialized (
  select set_config('lock_timeout', %(patience_ms)s, true)
),
outcome as materialized (
  select o.*
  from patience
  cross join jsonb_to_recordset(%(outcomes)s::jsonb) as o (
    id uuid, token uuid, status text, charge integer, delay double precision, started_at timestamptz,
    ended_at timestamptz, error text, result jsonb, state jsonb, entry jsonb, max_attempts integer, hold text,
    follow_ups jsonb
  )
),
settled as (
  update scheduled_actions a
  set
    status = case when o.status in ('pending', 'no_action') and a.cancel_requested_at is not null then 'cancelled'
      else o.status end,
    attempts = least(greatest(a.attempts, 0), 2147483646) + o.charge,
    max_attempts = coalesce(a.max_attempts, o.max_attempts),
    scheduled_at = case when o.delay is null then a.scheduled_at
      else scheduled_actions_now() + make_interval(secs => o.delay) end,
    started_at = coalesce(o.started_at, a.started_at),
    completed_at = case when o.status in ('pending', 'no_action') and a.cancel_requested_at is null then null
      else coalesce(o.ended_at, scheduled_actions_now()) end,
    error_message = case when o.status = 'completed' then null else coalesce(o.error, a.error_message) end,
    result = coalesce(o.result, a.result),
    state = coalesce(o.state, a.state),
    history = scheduled_actions_append_history(a.history, o.entry),
    -- An action that is due again stays in the queue of its limit key, so that the next action does not take its slot.
    parked_by = case
      when a.limit_keys is not null and o.status = 'pending' and a.cancel_requested_at is null and coalesce(o.delay, 0) <= 0
        then 'limit'
    end,
    claim_token = null,
    lease_expires_at = null,
    executor = null,
    announced_at = null,
    worker_id = null,
    updated_at = scheduled_actions_now()
  from outcome o
  where a.id = o.id and a.claim_token = o.token
  returning
    a.id, a.status, a.lock_group, o.hold, a.limit_keys, o.token, o.follow_ups, a.status = o.status as is_as_answered, a.team_id,
    case a.status when 'completed' then a.on_success when 'failed' then a.on_failure end as follow_its_end
),
freed_slots as (
  delete from scheduled_action_limit_slots l
  using settled s
  where s.limit_keys is not null and l.action_id = s.id and l.claim_token = s.token and s.hold <> 'linger'
),
lingering_slots as (
  update scheduled_action_limit_slots l
  set busy_until = %(lease_expires_at)s
  from settled s
  where s.limit_keys is not null and l.action_id = s.id and l.claim_token = s.token and s.hold = 'linger'
),
freed as (
  delete from scheduled_action_holds h
  using settled s
  where s.lock_group is not null and h.action_id = s.id
    -- An expired action is settled even while the late handler of its last attempt still holds the group.
    and h.busy_until is null
    and (s.hold = 'free' or s.hold = 'keep' and s.status <> 'pending')
),
lingering as (
  update scheduled_action_holds h
  set busy_until = %(lease_expires_at)s
  from settled s
  where s.lock_group is not null and h.action_id = s.id and s.hold = 'linger'
),
announced as (
  -- include: actions/announced
)
select
  array(select s.id from settled s) as ids,
  array(select s.status from settled s) as statuses,
  (
    select coalesce(sum(scheduled_actions_schedule_follow_ups(s.follow_ups, s.id)), 0)
    from settled s
    where s.follow_ups is not null and s.is_as_answered
  ) + (
    select coalesce(sum(scheduled_actions_schedule_follow_ups(scheduled_actions_follow_up_elements(s.follow_its_end, s.id, s.team_id), s.id)), 0)
    from settled s
    where s.follow_its_end is not null
  ) as refused,
  coalesce((select n.is_valid from announced n), false) as announced
