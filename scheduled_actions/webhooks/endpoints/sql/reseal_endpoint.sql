-- The secrets of the endpoint are encrypted anew, unless somebody changed them meanwhile; no row then.
update webhook_endpoints e
set
  secret = %(secret)s,
  -- One that signs no longer is not worth the trouble.
  previous_secret = %(previous_secret)s,
  previous_secret_until = case when %(previous_secret)s::text is not null then e.previous_secret_until end,
  headers = %(headers)s,
  updated_at = scheduled_actions_now()
where e.id = %(id)s
  and e.secret = %(old_secret)s
  and e.headers is not distinct from %(old_headers)s
returning e.id
