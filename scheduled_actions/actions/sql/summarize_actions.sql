-- Returns the values of these actions that a list shows, newest first.
select
  a.id::text, a.action_type, a.status, a.team_id, a.scheduled_at, a.created_at, a.attempts, a.max_attempts, a.target_type,
  a.target_id, a.lock_group, a.error_message, a.waiting is not null
from scheduled_actions a
where a.id = any (%(ids)s)
order by a.id desc
