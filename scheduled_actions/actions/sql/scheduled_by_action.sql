-- Returns the ids of actions (of the team) that an action scheduled, newest first, before the cursor.
select a.id
from scheduled_actions a
where a.scheduled_by = %(id)s
  and (%(team_id)s::text is null or a.team_id = %(team_id)s)
  and (%(before)s::uuid is null or a.id < %(before)s)
order by a.id desc
limit %(limit)s
