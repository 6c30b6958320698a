-- Returns the number of actions by status.
select a.status, count(*)
from scheduled_actions a
group by a.status
