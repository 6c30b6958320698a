-- Deadlines of one team by id; until the transaction ends no other one changes them; others may share the lock.
select
  -- include: deadlines/deadline_columns
from scheduled_action_deadlines d
where d.id = any (%(ids)s::uuid[])
  and d.team_id is not distinct from %(team_id)s
order by d.id
for share
