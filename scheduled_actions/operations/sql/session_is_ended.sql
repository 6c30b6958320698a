-- Returns whether a session of the dashboard was ended.
select exists (select from scheduled_action_ended_sessions e where e.id = %(id)s)
