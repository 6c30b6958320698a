-- The actions are stored or merged, and each new one refers to the action whose handler scheduled it.
select s.id, s.deduplicated
from scheduled_actions_schedule(%(new_actions)s::jsonb, %(scheduled_by)s) s
