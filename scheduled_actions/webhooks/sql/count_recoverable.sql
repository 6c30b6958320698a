-- Returns the number of deliveries that ended with one of the statuses between two instants, at most 100,000.
select count(*)
from (
  select
  from scheduled_actions a
  where a.status = any (%(statuses)s::text[])
    and a.completed_at >= %(since)s
    and a.completed_at < %(until)s
    and a.action_type = 'webhook:send'
    and a.payload ? 'endpoint'
    and (%(endpoint)s::text is null or a.payload ->> 'endpoint' = %(endpoint)s)
    and (%(team_id)s::text is null or a.team_id = %(team_id)s)
  limit 100000
) found
