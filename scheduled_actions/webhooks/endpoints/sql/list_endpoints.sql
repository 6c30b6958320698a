-- Returns the endpoints (of the team), oldest first, after the cursor.
select
  -- include: webhooks/endpoints/endpoint_columns
from webhook_endpoints e
left join webhook_endpoint_states s on s.endpoint = e.id::text
where (%(team_id)s::text is null or e.team_id = %(team_id)s)
  and (%(after)s::uuid is null or e.id > %(after)s)
order by e.id
limit %(limit)s
