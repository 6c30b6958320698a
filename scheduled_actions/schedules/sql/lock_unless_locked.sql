-- Returns and locks the schedule. No row if another transaction has locked it.
select
from scheduled_action_schedules s
where s.id = %(schedule_id)s
for update skip locked
