-- The request that first came with the key, by its digest, and what it was answered.
select k.digest, k.answer
from scheduled_action_idempotency_keys k
where k.scope = %(scope)s and k.key = %(key)s
