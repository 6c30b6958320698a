-- The fact is locked until the transaction ends.
select f.id
from scheduled_action_facts f
where f.team_id = %(team_id)s
  and f.target_type = %(target_type)s
  and f.target_id = %(target_id)s
  and f.name = %(name)s
for update
