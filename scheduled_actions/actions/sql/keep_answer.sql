-- The answer is kept under the key for a day.
update scheduled_action_idempotency_keys k
set answer = %(answer)s::jsonb
where k.scope = %(scope)s and k.key = %(key)s
