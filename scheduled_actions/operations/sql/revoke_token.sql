-- The token is revoked; a token revoked earlier is unchanged.
update scheduled_action_tokens t
set revoked_at = coalesce(t.revoked_at, scheduled_actions_now())
where t.id = %(id)s
  and (%(team_id)s::text is null or t.team_id = %(team_id)s)
returning
  -- include: operations/token_columns
