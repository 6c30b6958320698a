-- Until this transaction ends no other one changes the endpoint.
select e.id
from webhook_endpoints e
where e.id = %(id)s
  and (%(team_id)s::text is null or e.team_id = %(team_id)s)
for update
