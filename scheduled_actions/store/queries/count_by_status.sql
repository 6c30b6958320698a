-- How many actions stand in each status.
select a.status, count(*)
from scheduled_actions a
where (%(team_id)s::text is null or a.team_id = %(team_id)s)
group by a.status
