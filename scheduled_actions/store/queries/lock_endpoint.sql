-- Until this transaction ends no other one changes the endpoint.
select e.id
from webhook_endpoints e
where e.id = %(id)s
for update
