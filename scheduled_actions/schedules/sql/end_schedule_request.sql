-- The call from SQL with these arguments (null: any) is not requested any more; a later call is kept.
update scheduled_action_schedules s
set requested = null
where s.id = %(schedule_id)s and s.requested is not null
  and (%(requested)s::jsonb is null or s.requested = %(requested)s::jsonb)
