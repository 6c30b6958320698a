-- Returns the rejected pings and the seconds since the last one. No row if there was none.
select s.value, extract(epoch from scheduled_actions_now() - s.updated_at)::double precision
from scheduled_action_settings s
where s.name = 'refused_pings'
