-- The columns of an endpoint `e` and of its state `s`; readers rely on their order.
e.id, e.team_id, e.url, e.description, e.patterns, e.filter, e.enabled, e.ordering, e.rate_limit, e.retry, e.header_names,
e.headers, e.secret,
case when e.previous_secret_until > scheduled_actions_now() then e.previous_secret end,
e.previous_secret_until, e.created_by, e.created_at, e.updated_at,
s.failing_since, s.clock_started_at, s.disabled_at, s.disabled_reason
