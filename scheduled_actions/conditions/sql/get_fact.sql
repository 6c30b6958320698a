-- Returns a fact.
select
  -- include: conditions/fact_columns
from scheduled_action_facts f
where f.team_id = %(team_id)s
  and f.target_type = %(target_type)s
  and f.target_id = %(target_id)s
  and f.name = %(name)s
