-- The re-encrypted secrets and headers of the endpoint are stored. No row if they have changed since they were read.
update webhook_endpoints e
set
  secret = %(secret)s,
  -- An expired secret is dropped.
  previous_secret = %(previous_secret)s,
  previous_secret_until = case when %(previous_secret)s::text is not null then e.previous_secret_until end,
  headers = %(headers)s,
  updated_at = scheduled_actions_now()
where e.id = %(id)s
  and e.secret = %(old_secret)s
  and e.headers is not distinct from %(old_headers)s
returning e.id
