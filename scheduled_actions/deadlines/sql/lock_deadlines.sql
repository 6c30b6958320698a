-- The deadlines are locked until the transaction ends, in the order of their ids to prevent deadlocks.
select
  -- include: deadlines/deadline_columns
from scheduled_action_deadlines d
where d.id = any (%(ids)s::uuid[]) and (%(team_id)s::text is null or d.team_id = %(team_id)s)
order by d.id
for update
