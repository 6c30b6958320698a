-- Returns the number of active pauses.
select count(*)
from scheduled_action_pauses p
where p.ends_at is null or p.ends_at > scheduled_actions_now()
