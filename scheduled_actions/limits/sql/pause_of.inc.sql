-- The ids of the active pauses that hold back an action `a`; at most one. `active` is a common table expression.
select p.id
from active p
where p.kind = 'action_type' and p.name = a.action_type and (p.team_id is null or p.team_id = a.team_id)
  or p.kind = 'team' and p.name = a.team_id
  or p.kind = 'lock_group' and p.name = a.lock_group and (p.team_id is null or p.team_id = a.team_id)
limit 1
