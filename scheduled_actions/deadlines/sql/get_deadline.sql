-- One deadline by id, or the one of that name (within the team) that is unresolved and due first.
select
  -- include: deadlines/deadline_columns
from scheduled_action_deadlines d
where (d.id = %(id)s::uuid or d.name = %(name)s::text and coalesce(d.team_id, '') = coalesce(%(name_team_id)s::text, ''))
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
order by
  d.status in ('open', 'missed') desc,
  case when d.status in ('open', 'missed') then d.due_at end,
  d.id desc
limit 1
