-- The deliveries of these ids, the newest first.
select
  -- include: webhooks/delivery_columns
from webhook_deliveries d
where d.id = any (%(ids)s::uuid[])
order by d.id desc
