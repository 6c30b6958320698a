-- The actions are stored or merged; the result is in the order of the arguments.
select s.id, s.deduplicated
from schedule_actions(%(new_actions)s::jsonb) s
