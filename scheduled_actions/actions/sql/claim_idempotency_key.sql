-- The key belongs to this transaction, which will store the response. No row if a response of the last day is stored
-- under the key. Waits for another open transaction with the same key.
insert into scheduled_action_idempotency_keys as k (scope, key, digest)
values (%(scope)s, %(key)s, %(digest)s)
on conflict (scope, key) do update
set digest = excluded.digest, answer = null, created_at = scheduled_actions_now()
where k.created_at < scheduled_actions_now() - interval '1 day'
returning k.key
