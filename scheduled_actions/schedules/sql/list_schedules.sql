-- Returns the newest schedules that match all filters, with ids below the cursor.
select
  -- include: schedules/schedule_columns
from scheduled_action_schedules s
where (%(before)s::uuid is null or s.id < %(before)s)
  and (%(status)s::text is null or s.status = %(status)s)
  and (%(action_type)s::text is null or s.action_type = %(action_type)s)
  and (%(team_id)s::text is null or s.team_id = %(team_id)s)
order by s.id desc
limit %(limit)s
