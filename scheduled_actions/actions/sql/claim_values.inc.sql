-- The columns that every claim sets; the claims of queues also set others.
status = 'processing',
claim_token = %(token)s,
lease_expires_at = %(lease_expires_at)s,
dedup_open = false,
updated_at = scheduled_actions_now()
