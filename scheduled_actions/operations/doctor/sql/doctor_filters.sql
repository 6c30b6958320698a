-- Returns the newest enabled endpoints with a filter, at most `most`.
select
  -- include: webhooks/endpoints/endpoint_columns
from webhook_endpoints e
left join webhook_endpoint_states s on s.endpoint = e.id::text
where e.enabled and e.filter is not null
order by e.id desc
limit %(most)s
