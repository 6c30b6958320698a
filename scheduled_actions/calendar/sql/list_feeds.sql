-- The newest feeds before the cursor.
select
  f.id, f.name, f.hint, f.team_id, f.user_id, f.action_type, f.created_by, f.created_at, f.last_used_at, f.revoked_at
from scheduled_action_feeds f
where (%(before)s::uuid is null or f.id < %(before)s)
  and (%(team_id)s::text is null or f.team_id = %(team_id)s)
order by f.id desc
limit %(limit)s
