-- Returns the newest feeds before the cursor.
select
  -- include: calendar/feed_columns
from scheduled_action_feeds f
where (%(before)s::uuid is null or f.id < %(before)s)
  and (%(team_id)s::text is null or f.team_id = %(team_id)s)
order by f.id desc
limit %(limit)s
