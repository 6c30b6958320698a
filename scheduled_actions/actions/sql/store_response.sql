-- The response is stored under the key; it expires after a day.
update scheduled_action_idempotency_keys k
set answer = %(response)s::jsonb
where k.scope = %(scope)s and k.key = %(key)s
