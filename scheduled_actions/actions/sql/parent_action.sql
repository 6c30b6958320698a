-- Returns what a handler reads of the action that scheduled its own. Another team's action returns no row.
select a.id, a.action_type, a.status, a.result, a.error_message, a.attempts
from scheduled_actions a
where a.id = %(id)s and a.team_id is not distinct from %(team_id)s
