-- The newest tokens before the cursor.
select
  t.id, t.name, t.hint, t.role, t.team_id, t.created_by, t.created_at, t.expires_at, t.last_used_at, t.revoked_at,
  t.expires_at <= scheduled_actions_now()
from scheduled_action_tokens t
where (%(before)s::uuid is null or t.id < %(before)s)
  and (%(team_id)s::text is null or t.team_id = %(team_id)s)
order by t.id desc
limit %(limit)s
