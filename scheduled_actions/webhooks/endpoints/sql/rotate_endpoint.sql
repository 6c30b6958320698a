-- The endpoint has a new secret; the one before signs beside it for so many seconds. No row when there is no such endpoint.
update webhook_endpoints e
set
  previous_secret = case when %(beside_seconds)s > 0 then e.secret end,
  previous_secret_until = case when %(beside_seconds)s > 0
    then scheduled_actions_now() + make_interval(secs => %(beside_seconds)s) end,
  secret = %(secret)s,
  updated_at = scheduled_actions_now()
where e.id = %(id)s
  and (%(team_id)s::text is null or e.team_id = %(team_id)s)
returning e.previous_secret_until
