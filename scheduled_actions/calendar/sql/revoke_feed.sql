-- The feed is revoked; a feed revoked earlier is unchanged.
update scheduled_action_feeds f
set revoked_at = coalesce(f.revoked_at, scheduled_actions_now())
where f.id = %(id)s
  and (%(team_id)s::text is null or f.team_id = %(team_id)s)
returning
  -- include: calendar/feed_columns
