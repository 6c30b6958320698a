-- The schedule is deleted. Its occurrences that were started keep its id in their history.
delete from scheduled_action_schedules s where s.id = %(schedule_id)s
