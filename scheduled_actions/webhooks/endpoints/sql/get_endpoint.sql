-- Returns the endpoint with this id (in the team) and its state.
select
  -- include: webhooks/endpoints/endpoint_columns
from webhook_endpoints e
left join webhook_endpoint_states s on s.endpoint = e.id::text
where e.id = %(id)s
  and (%(team_id)s::text is null or e.team_id = %(team_id)s)
