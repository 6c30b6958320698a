-- The pending actions of these deadlines are cancelled with the reason, except the action that creates the next deadline
-- of a series.
update scheduled_actions a
set
  status = 'cancelled',
  completed_at = scheduled_actions_now(),
  error_message = %(reason)s,
  dedup_open = false,
  history = scheduled_actions_append_history(a.history, jsonb_strip_nulls(jsonb_build_object(
    'outcome', 'cancelled', 'at', scheduled_actions_now(), 'by', %(by)s::text, 'reason', %(reason)s::text))),
  updated_at = scheduled_actions_now()
where a.deadline_id = any (%(ids)s::uuid[])
  and a.status in ('pending', 'no_action')
  and a.action_type <> 'deadline:renew'
