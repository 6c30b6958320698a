-- Filters of a search over actions `a`, except the status.
and (%(team_id)s::text is null or a.team_id = %(team_id)s)
and (%(action_type)s::text is null or a.action_type = %(action_type)s)
and (%(lock_group)s::text is null or a.lock_group = %(lock_group)s)
and (%(user_id)s::text is null or a.user_id = %(user_id)s)
and (%(target_id)s::text is null or (a.target_type, a.target_id) = (%(target_type)s, %(target_id)s))
and (%(schedule_id)s::uuid is null or a.schedule_id = %(schedule_id)s)
and (%(deadline_id)s::uuid is null or a.deadline_id = %(deadline_id)s)
and (%(scheduled_by)s::uuid is null or a.scheduled_by = %(scheduled_by)s)
and (%(due_from)s::timestamptz is null or a.scheduled_at >= %(due_from)s)
and (%(due_to)s::timestamptz is null or a.scheduled_at < %(due_to)s)
and (%(completed_to)s::timestamptz is null or a.completed_at < %(completed_to)s)
and (
  %(unlocked_for_seconds)s::int is null
  or a.status <> 'pending'
  or a.scheduled_at > scheduled_actions_now() + make_interval(secs => %(unlocked_for_seconds)s)
)
and (
  %(q)s::text is null
  or strpos(a.id::text, %(q)s) = 1
  or strpos(a.action_type, %(q)s) > 0
  or strpos(a.dedup_key, %(q)s) > 0
  or strpos(a.lock_group, %(q)s) > 0
)
