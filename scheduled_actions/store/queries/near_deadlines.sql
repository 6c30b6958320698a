-- The unresolved deadlines whose due instant is nearest, those that have passed first: of the first 2,000 of all teams.
select n.id, n.name, n.target_type, n.target_id, n.status, n.due_at, n.paused_at
from (
  select d.id, d.name, d.target_type, d.target_id, d.status, d.due_at, d.paused_at, d.team_id
  from scheduled_action_deadlines d
  where d.status in ('open', 'missed')
  order by d.due_at
  limit 2000
) n
where n.due_at < scheduled_actions_now() + make_interval(secs => %(within_seconds)s)
  and (%(team_id)s::text is null or n.team_id = %(team_id)s)
order by n.due_at
limit %(limit)s
