-- The feed is known by its digest; the secret itself is nowhere.
insert into scheduled_action_feeds as f (name, digest, hint, team_id, user_id, action_type, token_id, created_by)
values (
  %(name)s, %(digest)s, %(hint)s, %(team_id)s, %(user_id)s, %(action_type)s, %(token_id)s, %(created_by)s
)
returning
  f.id, f.name, f.hint, f.team_id, f.user_id, f.action_type, f.created_by, f.created_at, f.last_used_at, f.revoked_at
