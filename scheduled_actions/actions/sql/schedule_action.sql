-- The action is stored, or merged into a pending one. The SQL function is the only implementation. Python leaves out the
-- lines of arguments that are not given, because the server parses each of them in each call.
select s.id, s.deduplicated
from schedule_action(
  scheduled_at => %(scheduled_at)s,
  scheduled_at => scheduled_actions_now() + make_interval(secs => %(delay)s),
  team_id => %(team_id)s,
  priority => %(priority)s,
  max_attempts => %(max_attempts)s,
  retry => %(retry)s::jsonb,
  lock_group => %(lock_group)s,
  lock_group_blocks => %(lock_group_blocks)s,
  dedup_key => %(dedup_key)s,
  dedup_window => %(dedup_window)s,
  dedup_mode => %(dedup_mode)s,
  target => %(target)s::jsonb,
  user_id => %(user_id)s,
  metadata => %(metadata)s::jsonb,
  created_by => %(created_by)s,
  condition => %(condition)s::jsonb,
  after => %(after)s::uuid[],
  on_success => %(on_success)s::jsonb,
  on_failure => %(on_failure)s::jsonb,
  limits => %(limit)s::text[],
  expires_at => %(expires_at)s,
  expires_in => make_interval(secs => %(expires_in)s),
  on_expiry => %(on_expiry)s,
  action_type => %(action_type)s, payload => %(payload)s::jsonb
) s
