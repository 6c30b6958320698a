-- Columns of an endpoint `e` and of its state `s`, in the order of the fields of `EndpointRow`; the id as text.
e.team_id, e.url, e.description, e.patterns, e.filter, e.enabled, e.ordering, e.rate_limit, e.retry, e.header_names,
e.created_by, e.created_at, e.updated_at, e.previous_secret_until,
s.failing_since, s.disabled_at, s.disabled_reason,
e.id::text, s.clock_started_at, e.headers, e.secret,
case when e.previous_secret_until > scheduled_actions_now() then e.previous_secret end
