-- Returns the digest of the first request with this key, and the stored response.
select k.digest, k.answer
from scheduled_action_idempotency_keys k
where k.scope = %(scope)s and k.key = %(key)s
