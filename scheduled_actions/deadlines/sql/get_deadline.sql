-- Returns a deadline by id or name (within the team). Of several deadlines with one name, this is the unresolved one
-- that is due first; if all are resolved, the newest.
select
  -- include: deadlines/deadline_columns
from scheduled_action_deadlines d
where (d.id = %(id)s::uuid or d.name = %(name)s::text and coalesce(d.team_id, '') = coalesce(%(team_id)s::text, ''))
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
order by
  d.status in ('open', 'missed') desc,
  case when d.status in ('open', 'missed') then d.due_at end,
  d.id desc
limit 1
