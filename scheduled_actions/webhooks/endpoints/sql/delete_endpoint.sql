-- The endpoint with this id (in the team) and its state are deleted. No row if there was none.
with gone as (
  delete from webhook_endpoints e
  where e.id = %(id)s
    and (%(team_id)s::text is null or e.team_id = %(team_id)s)
  returning e.id
),
forgotten as (
  delete from webhook_endpoint_states s using gone g where s.endpoint = g.id::text
)
select g.id from gone g
