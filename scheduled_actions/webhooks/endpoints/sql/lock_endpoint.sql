-- The endpoint is locked until the transaction ends.
select e.id
from webhook_endpoints e
where e.id = %(id)s
  and (%(team_id)s::text is null or e.team_id = %(team_id)s)
for update
