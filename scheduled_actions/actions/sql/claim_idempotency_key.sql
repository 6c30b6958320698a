-- The key is this transaction's, which is to keep its answer; no row when an answer of the last day is kept under it.
-- Somebody else's open transaction with the same key is waited for.
insert into scheduled_action_idempotency_keys as k (scope, key, digest)
values (%(scope)s, %(key)s, %(digest)s)
on conflict (scope, key) do update
set digest = excluded.digest, answer = null, created_at = scheduled_actions_now()
where k.created_at < scheduled_actions_now() - interval '1 day'
returning k.key
