-- The fact is deleted, its history is kept, and actions that wait for it are woken. Returns no row for an unknown fact.
with gone as (
  delete from scheduled_action_facts f
  where f.team_id = %(team_id)s
    and f.target_type = %(target_type)s
    and f.target_id = %(target_id)s
    and f.name = %(name)s
  returning f.*
),
noted as (
  insert into scheduled_action_fact_changes (team_id, target_type, target_id, name, reported_by)
  select g.team_id, g.target_type, g.target_id, g.name, %(by)s from gone g
)
select g.id, scheduled_actions_fact_changed(g.team_id, g.target_type, g.target_id, g.name)
from gone g
