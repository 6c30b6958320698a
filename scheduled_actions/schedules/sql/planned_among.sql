-- Returns which of these actions are the planned occurrence of a schedule.
select s.next_action_id
from scheduled_action_schedules s
where s.id = any (%(schedule_ids)s::uuid[]) and s.next_action_id = any (%(action_ids)s::uuid[])
