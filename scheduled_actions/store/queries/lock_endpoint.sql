-- Until this transaction ends nobody else changes the endpoint.
select e.id
from webhook_endpoints e
where e.id = %(id)s
for update
