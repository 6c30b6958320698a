-- Many actions are in the table, or merged; answered in the order given.
select s.id, s.deduplicated
from schedule_actions(%(new_actions)s::jsonb) s
