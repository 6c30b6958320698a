-- The token is known by its digest; the token itself is nowhere.
insert into scheduled_action_tokens as t (name, digest, hint, role, team_id, created_by, expires_at)
values (
  %(name)s, %(digest)s, %(hint)s, %(role)s, %(team_id)s, %(created_by)s,
  coalesce(%(expires_at)s::timestamptz, scheduled_actions_now() + %(expires_in)s::interval)
)
returning
  t.id, t.name, t.hint, t.role, t.team_id, t.created_by, t.created_at, t.expires_at, t.last_used_at, t.revoked_at,
  t.expires_at <= scheduled_actions_now()
