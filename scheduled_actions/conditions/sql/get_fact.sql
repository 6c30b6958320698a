-- One fact.
select
  f.id, nullif(f.team_id, ''), f.target_type, f.target_id, f.name, f.value, f.reported_by, f.changed_at, f.reported_at
from scheduled_action_facts f
where f.team_id = %(team_id)s
  and f.target_type = %(target_type)s
  and f.target_id = %(target_id)s
  and f.name = %(name)s
