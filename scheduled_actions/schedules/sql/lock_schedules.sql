-- Schedules by id, locked for the rest of the transaction in one order, so that nobody waits in a circle.
select
  -- include: schedules/schedule_columns
from scheduled_action_schedules s
where s.id = any (%(ids)s::uuid[])
order by s.id
for update
