-- Returns the active fixed schedules whose planned occurrence is before an instant, so that more occurrences may
-- follow in the range.
select
  -- include: schedules/schedule_columns
from scheduled_action_schedules s
where s.status = 'active'
  and s.recurrence_type = 'fixed'
  and s.next_occurrence_at < %(to)s::timestamptz
  and (%(team_id)s::text is null or s.team_id = %(team_id)s)
  and (%(user)s::text is null or s.user_id = %(user)s)
order by s.id
limit %(limit)s
