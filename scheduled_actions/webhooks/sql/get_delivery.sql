-- Returns the delivery with this id (in the team).
select
  -- include: webhooks/delivery_columns
from webhook_deliveries d
where d.id = %(id)s
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
