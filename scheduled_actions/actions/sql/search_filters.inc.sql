-- Filters of a search over actions `a`, except team and status.
and (%(action_type)s::text is null or a.action_type = %(action_type)s)
and (%(lock_group)s::text is null or a.lock_group = %(lock_group)s)
and (%(due_from)s::timestamptz is null or a.scheduled_at >= %(due_from)s)
and (%(due_to)s::timestamptz is null or a.scheduled_at < %(due_to)s)
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
