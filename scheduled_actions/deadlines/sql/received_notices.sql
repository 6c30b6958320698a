-- Returns the keys of the people who received a notification of these occurrences of a deadline's stages.
select n.person_key
from scheduled_action_deadline_notices n
where n.deadline_id = %(deadline_id)s
  and n.stage = any (%(stages)s::text[])
  and n.problem is null
