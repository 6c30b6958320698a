-- There is no endpoint of that id (in that team) any more, nor anything known of it; no row when there was none.
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
