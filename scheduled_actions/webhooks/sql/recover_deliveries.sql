-- At most `limit` deliveries that ended with this status between two instants are pending again, those that ended first;
-- locked deliveries are left out. All are due at the same instant, so that they run in the order of their ids, which is the order of
-- their events.
with lost as (
  select a.id
  from scheduled_actions a
  where a.status = %(status)s
    and a.completed_at >= %(since)s
    and a.completed_at < %(until)s
    and a.action_type = 'webhook:send'
    and a.payload ? 'endpoint'
    and (%(endpoint)s::text is null or a.payload ->> 'endpoint' = %(endpoint)s)
    and (%(team_id)s::text is null or a.team_id = %(team_id)s)
  order by a.completed_at
  limit %(limit)s
  for update skip locked
)
update scheduled_actions a
set
  status = 'pending',
  attempts = 0,
  scheduled_at = %(until)s,
  completed_at = null,
  cancel_requested_at = null,
  error_message = null,
  state = null,
  -- As for a retry, which is wanted although it is late.
  expires_at = null,
  on_expiry = null,
  parked_by = null,
  history = scheduled_actions_append_history(a.history, jsonb_build_object(
    'outcome', 'recovered', 'at', scheduled_actions_now(), 'by', %(by)s::text)),
  updated_at = scheduled_actions_now()
where a.id = any (array(select l.id from lost l))
returning a.id
