-- Returns the unresolved deadlines (of the team) that are overdue or due within `within_seconds`, earliest first. With
-- and without a team, a separate query uses its own index.
(
  select d.id, d.name, d.target_type, d.target_id, d.status, d.due_at, d.paused_at
  from scheduled_action_deadlines d
  where %(team_id)s::text is null
    and d.status in ('open', 'missed')
    and d.due_at < scheduled_actions_now() + make_interval(secs => %(within_seconds)s)
  order by d.due_at
  limit %(limit)s
)
union all
(
  select d.id, d.name, d.target_type, d.target_id, d.status, d.due_at, d.paused_at
  from scheduled_action_deadlines d
  where d.team_id = %(team_id)s::text
    and d.status in ('open', 'missed')
    and d.due_at < scheduled_actions_now() + make_interval(secs => %(within_seconds)s)
  order by d.due_at
  limit %(limit)s
)
order by due_at
