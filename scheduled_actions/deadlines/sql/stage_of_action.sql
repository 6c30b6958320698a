-- Returns the deadline, stage and occurrence of an action.
select a.deadline_id, a.deadline_stage
from scheduled_actions a
where a.id = %(action_id)s
