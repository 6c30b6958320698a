-- The schedule, locked for the rest of the transaction; no row where another transaction has locked it.
select
from scheduled_action_schedules s
where s.id = %(schedule_id)s
for update skip locked
