-- The endpoint has a new secret; the previous one stays valid for the given seconds. No row if there is no such
-- endpoint.
update webhook_endpoints e
set
  previous_secret = case when %(grace_seconds)s > 0 then e.secret end,
  previous_secret_until = case when %(grace_seconds)s > 0
    then scheduled_actions_now() + make_interval(secs => %(grace_seconds)s) end,
  secret = %(secret)s,
  updated_at = scheduled_actions_now()
where e.id = %(id)s
  and (%(team_id)s::text is null or e.team_id = %(team_id)s)
returning e.previous_secret_until
