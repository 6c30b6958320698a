-- Returns and locks the schedule of an action (in that team). No row if it has none.
select s.id
from scheduled_action_schedules s
where s.id = (select a.schedule_id from scheduled_actions a where a.id = %(action_id)s)
  and (%(team_id)s::text is null or s.team_id = %(team_id)s)
for update
