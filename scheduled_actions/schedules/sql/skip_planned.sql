-- The planned occurrence is skipped by a user. No row if it is claimed or has started before.
update scheduled_actions a
set
  status = 'skipped',
  completed_at = scheduled_actions_now(),
  error_message = %(reason)s,
  history = scheduled_actions_append_history(a.history, jsonb_strip_nulls(jsonb_build_object(
    'outcome', 'skipped', 'at', scheduled_actions_now(), 'by', %(by)s::text, 'reason', %(reason)s::text))),
  updated_at = scheduled_actions_now()
where a.id = %(action_id)s and a.status in ('pending', 'no_action') and a.attempts = 0
returning a.id
