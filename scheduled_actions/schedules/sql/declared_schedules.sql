-- Returns the schedules declared in code, by name, with the user who paused them.
select s.id, s.name, s.team_id, s.status, s.status_by
from scheduled_action_schedules s
where s.is_declared
order by s.id
