-- Returns the encrypted secrets of the newest hundred endpoints, and the number of endpoints.
select e.secret, count(*) over ()
from webhook_endpoints e
order by e.id desc
limit 100
