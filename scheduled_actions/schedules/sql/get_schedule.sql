-- Returns a schedule by id or by name (within the team).
select
  -- include: schedules/schedule_columns
from scheduled_action_schedules s
where (s.id = %(id)s::uuid or s.name = %(name)s::text and coalesce(s.team_id, '') = coalesce(%(name_team_id)s::text, ''))
  and (%(team_id)s::text is null or s.team_id = %(team_id)s)
