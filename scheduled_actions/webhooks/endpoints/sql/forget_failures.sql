-- The endpoint has no recorded failures; if `enable` is true, it is enabled.
update webhook_endpoint_states s
set
  failing_since = null,
  last_failure_at = null,
  clock_started_at = null,
  warned_at = null,
  disabled_at = case when %(enable)s then null else s.disabled_at end,
  disabled_reason = case when %(enable)s then null else s.disabled_reason end
where s.endpoint = %(endpoint)s
