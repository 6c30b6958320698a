-- At most `limit` idempotency keys older than a day are deleted.
delete from scheduled_action_idempotency_keys k
where (k.scope, k.key) in (
  select old.scope, old.key
  from scheduled_action_idempotency_keys old
  where old.created_at < scheduled_actions_now() - interval '1 day'
  order by old.created_at
  limit %(limit)s
  for update skip locked
)
