-- The schedule is gone. Its occurrences that were started keep its id, for whoever reads their history.
delete from scheduled_action_schedules s where s.id = %(schedule_id)s
