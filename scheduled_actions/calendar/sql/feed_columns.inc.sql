-- Columns of a calendar feed `f`, without its digest; readers rely on their order.
f.id, f.name, f.hint, f.team_id, f.user_id, f.action_type, f.created_by, f.created_at, f.last_used_at, f.revoked_at
