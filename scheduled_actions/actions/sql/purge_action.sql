-- The finished action is deleted. No row if it has not ended.
delete from scheduled_actions a
where a.id = %(id)s
  and a.status in ('completed', 'failed', 'cancelled', 'skipped')
  and (%(team_id)s::text is null or a.team_id = %(team_id)s)
returning
  -- include: actions/action_columns
