-- Columns of a token `t` without its digest, and whether it has expired; readers rely on their order.
t.id, t.name, t.hint, t.role, t.team_id, t.created_by, t.created_at, t.expires_at, t.last_used_at, t.revoked_at,
t.expires_at <= scheduled_actions_now()
