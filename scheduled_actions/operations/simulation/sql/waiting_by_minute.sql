-- Returns the number of pending actions without a schedule by type and minute in which they become due, from at most
-- `limit` actions.
select date_trunc('minute', w.scheduled_at, 'UTC'), w.action_type, count(*)
from (
  select a.scheduled_at, a.action_type
  from scheduled_actions a
  where a.status = 'pending'
    and a.schedule_id is null
    and a.scheduled_at <= %(until)s
    and (%(team_id)s::text is null or a.team_id = %(team_id)s)
  limit %(limit)s
) w
group by 1, 2
