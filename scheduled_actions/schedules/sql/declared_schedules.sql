-- Returns the schedules declared in code, with their status and its author, in the order of their ids.
select s.id, s.name, s.team_id, s.status, s.status_by
from scheduled_action_schedules s
where s.is_declared
order by s.id
