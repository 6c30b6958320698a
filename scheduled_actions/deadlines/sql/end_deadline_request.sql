-- No call from SQL is requested any more.
update scheduled_action_deadlines d
set requested = null
where d.id = %(deadline_id)s and d.requested is not null
