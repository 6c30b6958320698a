-- The feed is stored with the digest of its secret; the secret itself is not stored.
insert into scheduled_action_feeds as f (name, digest, hint, team_id, user_id, action_type, token_id, created_by)
values (
  %(name)s, %(digest)s, %(hint)s, %(team_id)s, %(user_id)s, %(action_type)s, %(token_id)s, %(created_by)s
)
returning
  -- include: calendar/feed_columns
