-- Returns the endpoints that may receive an event of the team: its own and those without a team.
select
  -- include: webhooks/endpoints/endpoint_columns
from webhook_endpoints e
left join webhook_endpoint_states s on s.endpoint = e.id::text
where e.team_id = %(team_id)s or e.team_id is null
order by e.id
