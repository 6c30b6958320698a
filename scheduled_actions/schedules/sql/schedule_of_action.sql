-- The schedule that an action is an occurrence of, locked for the rest of the transaction; no row outside a series.
select s.id
from scheduled_action_schedules s
where s.id = (select a.schedule_id from scheduled_actions a where a.id = %(action_id)s)
for update
