-- Which occurrence of which stage of which deadline an action is for.
select a.deadline_id, a.deadline_stage
from scheduled_actions a
where a.id = %(action_id)s
