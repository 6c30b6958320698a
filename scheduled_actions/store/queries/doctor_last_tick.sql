-- How many seconds ago the latest tick started; no row where there is none.
select extract(epoch from scheduled_actions_now() - t.started_at)::double precision
from scheduled_action_ticks t
order by t.started_at desc
limit 1
