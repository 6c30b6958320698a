-- The call from SQL with these arguments has been applied to the schedule; a later call is kept.
update scheduled_action_schedules s
set requested = null
where s.id = %(schedule_id)s and s.requested = %(requested)s::jsonb
