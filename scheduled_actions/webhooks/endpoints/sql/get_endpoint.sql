-- The endpoint of that id (in that team), with how it has been doing.
select
  e.id, e.team_id, e.url, e.description, e.patterns, e.filter, e.enabled, e.ordering, e.rate_limit, e.retry, e.header_names,
  e.headers, e.secret,
  case when e.previous_secret_until > scheduled_actions_now() then e.previous_secret end, e.previous_secret_until, e.created_by, e.created_at, e.updated_at,
  s.failing_since, s.clock_started_at, s.disabled_at, s.disabled_reason
from webhook_endpoints e
left join webhook_endpoint_states s on s.endpoint = e.id::text
where e.id = %(id)s
  and (%(team_id)s::text is null or e.team_id = %(team_id)s)
