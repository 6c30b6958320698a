-- Returns the unresolved deadlines (of the team, with one of the statuses) after the cursor, ordered by due instant.
select
  -- include: deadlines/deadline_columns
from scheduled_action_deadlines d
where d.status in ('open', 'missed')
  and d.status = any (%(statuses)s)
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
  and (%(due_to)s::timestamptz is null or d.due_at < %(due_to)s)
  and (%(after_at)s::timestamptz is null or (d.due_at, d.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid))
order by d.due_at, d.id
limit %(limit)s
