-- The schedule is deleted. Its started occurrences keep its id in their column `schedule_id`.
delete from scheduled_action_schedules s where s.id = %(schedule_id)s
