-- How many actions stand in each status.
select a.status, count(*)
from scheduled_actions a
group by a.status
