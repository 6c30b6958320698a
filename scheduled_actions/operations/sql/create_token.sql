-- The token is stored as a digest; the token itself is not stored.
insert into scheduled_action_tokens as t (name, digest, hint, role, team_id, created_by, expires_at)
values (
  %(name)s, %(digest)s, %(hint)s, %(role)s, %(team_id)s, %(created_by)s,
  coalesce(%(expires_at)s::timestamptz, scheduled_actions_now() + %(expires_in)s::interval)
)
returning
  -- include: operations/token_columns
