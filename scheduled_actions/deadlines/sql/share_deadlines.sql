-- The deadlines with these ids (of the team) are locked in share mode until the transaction ends: no other transaction
-- can change them.
select
  -- include: deadlines/deadline_columns
from scheduled_action_deadlines d
where d.id = any (%(ids)s::uuid[])
  and d.team_id is not distinct from %(team_id)s
order by d.id
for share
