-- The pings that were refused, and how many seconds ago the last of them was noted; no row where there is none.
select s.value, extract(epoch from scheduled_actions_now() - s.updated_at)::double precision
from scheduled_action_settings s
where s.name = 'refused_pings'
