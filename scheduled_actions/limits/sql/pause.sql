-- The subject is paused. Returns the id of the pause.
select scheduled_actions_pause(
  %(kind)s, %(name)s, %(team_id)s, %(note)s, %(paused_by)s,
  coalesce(%(ends_at)s::timestamptz, scheduled_actions_now() + %(delay)s::interval)
)
