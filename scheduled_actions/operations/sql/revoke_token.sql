-- The token opens nothing any more; one revoked before stays as it was.
update scheduled_action_tokens t
set revoked_at = coalesce(t.revoked_at, scheduled_actions_now())
where t.id = %(id)s
  and (%(team_id)s::text is null or t.team_id = %(team_id)s)
returning
  t.id, t.name, t.hint, t.role, t.team_id, t.created_by, t.created_at, t.expires_at, t.last_used_at, t.revoked_at,
  t.expires_at <= scheduled_actions_now()
