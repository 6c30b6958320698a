-- Returns the deliveries with these ids, newest first.
select
  -- include: webhooks/delivery_columns
from webhook_deliveries d
where d.id = any (%(ids)s::uuid[])
order by d.id desc
