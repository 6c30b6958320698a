-- Returns and locks the schedules with these ids, or with these names within the team, in a fixed order.
select s.id
from scheduled_action_schedules s
where s.id = any (%(ids)s::uuid[])
  or s.name = any (%(names)s::text[]) and coalesce(s.team_id, '') = coalesce(%(name_team_id)s::text, '')
order by s.id
for update
