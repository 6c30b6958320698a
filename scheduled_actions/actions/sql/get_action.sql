-- One whole action; of another team's there is nothing to see.
select
  -- include: actions/action_columns
from scheduled_actions a
where a.id = %(id)s and (%(team_id)s::text is null or a.team_id = %(team_id)s)
