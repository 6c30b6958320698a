-- The encrypted secrets of the newest hundred endpoints of the database, and how many endpoints there are.
select e.secret, count(*) over ()
from webhook_endpoints e
order by e.id desc
limit 100
