-- The call from SQL with these arguments (null: any) is not requested any more; a later call is kept. Returns the id if it was.
update scheduled_action_deadlines d
set requested = null
where d.id = %(deadline_id)s and d.requested is not null
  and (%(requested)s::jsonb is null or d.requested = %(requested)s::jsonb)
returning d.id
