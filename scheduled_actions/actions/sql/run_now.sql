-- The pending action is due. No row if it is not pending.
update scheduled_actions a
set
  scheduled_at = least(a.scheduled_at, scheduled_actions_now()),
  history = case
    when a.scheduled_at <= scheduled_actions_now() then a.history
    else scheduled_actions_append_history(a.history, jsonb_build_object(
      'outcome', 'updated', 'at', scheduled_actions_now(), 'by', %(by)s::text,
      'changes', jsonb_build_array('scheduled_at')))
  end,
  updated_at = case when a.scheduled_at <= scheduled_actions_now() then a.updated_at else scheduled_actions_now() end
where a.id = %(id)s
  and a.status = 'pending'
  and (%(team_id)s::text is null or a.team_id = %(team_id)s)
returning
  -- include: actions/action_columns
