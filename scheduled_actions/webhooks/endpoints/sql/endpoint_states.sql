-- How the endpoints of those names have been doing; no row for one that never failed.
select s.endpoint, s.failing_since, s.clock_started_at, s.disabled_at, s.disabled_reason
from webhook_endpoint_states s
where s.endpoint = any (%(endpoints)s::text[])
