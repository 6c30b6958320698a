-- The schedules with these ids, or these names within the team, locked for the rest of the transaction in one order.
select s.id
from scheduled_action_schedules s
where s.id = any (%(ids)s::uuid[])
  or s.name = any (%(names)s::text[]) and coalesce(s.team_id, '') = coalesce(%(name_team_id)s::text, '')
order by s.id
for update
