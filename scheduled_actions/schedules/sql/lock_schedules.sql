-- Returns and locks the schedules in the order of their ids, to prevent deadlocks.
select
  -- include: schedules/schedule_columns
from scheduled_action_schedules s
where s.id = any (%(ids)s::uuid[])
order by s.id
for update
