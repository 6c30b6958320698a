-- Returns the failure states of the endpoints with these names. No row for an endpoint that never failed.
select s.endpoint, s.failing_since, s.clock_started_at, s.disabled_at, s.disabled_reason
from webhook_endpoint_states s
where s.endpoint = any (%(endpoints)s::text[])
