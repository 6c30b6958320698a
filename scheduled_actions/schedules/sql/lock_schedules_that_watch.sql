-- The schedules among these whose next step depends on how an occurrence ended, locked for the rest of the transaction
-- in one order: rolling ones, those that pause after failures, and those whose planned occurrence was among what ended.
select
  -- include: schedules/schedule_columns
from scheduled_action_schedules s
where s.id = any (%(ids)s::uuid[])
  and (s.recurrence_type = 'rolling' or s.pause_after_failures is not null or s.next_action_id = any (%(action_ids)s::uuid[]))
order by s.id
for update of s
