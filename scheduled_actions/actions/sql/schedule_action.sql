-- The action is stored, or merged into a pending one. The SQL function is the only implementation.
select s.id, s.deduplicated
from scheduled_actions_schedule_one(%(new_action)s::jsonb) s
