-- The action is locked until the transaction ends. Returns it, or no row.
select
  -- include: actions/action_columns
from scheduled_actions a
where a.id = %(id)s and (%(team_id)s::text is null or a.team_id = %(team_id)s)
for update
