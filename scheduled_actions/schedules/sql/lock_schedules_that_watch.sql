-- Returns and locks, in a fixed order, those of the schedules whose next step depends on how an occurrence ended:
-- rolling ones, those that pause after failures, and those whose planned occurrence has ended.
select
  -- include: schedules/schedule_columns
from scheduled_action_schedules s
where s.id = any (%(ids)s::uuid[])
  and (s.recurrence_type = 'rolling' or s.pause_after_failures is not null or s.next_action_id = any (%(action_ids)s::uuid[]))
order by s.id
for update of s
