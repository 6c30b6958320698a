-- The ids of actions that had waited for a build with their handler; nothing is locked.
select a.id
from scheduled_actions a
where a.status = 'no_action' and a.action_type = any (%(action_types)s::text[])
limit 1000
