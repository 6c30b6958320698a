-- Returns the latest changes of a fact, newest first.
select c.value, c.value is null, c.reported_by, c.changed_at
from scheduled_action_fact_changes c
where c.team_id = %(team_id)s
  and c.target_type = %(target_type)s
  and c.target_id = %(target_id)s
  and c.name = %(name)s
order by c.id desc
limit %(limit)s
