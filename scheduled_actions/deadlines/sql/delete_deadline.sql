-- The deadline is deleted.
delete from scheduled_action_deadlines d where d.id = %(deadline_id)s
