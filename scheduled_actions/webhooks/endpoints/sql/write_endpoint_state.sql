-- The failure state of the endpoint is stored. With a reason, the endpoint is disabled; if it already was, the time at
-- which it was disabled does not change.
update webhook_endpoint_states s
set
  failing_since = %(failing_since)s,
  last_failure_at = %(last_failure_at)s,
  clock_started_at = %(clock_started_at)s,
  warned_at = %(warned_at)s,
  disabled_at = case when %(disabled_reason)s::text is null then s.disabled_at
    else coalesce(s.disabled_at, scheduled_actions_now()) end,
  disabled_reason = coalesce(s.disabled_reason, %(disabled_reason)s)
where s.endpoint = %(endpoint)s
