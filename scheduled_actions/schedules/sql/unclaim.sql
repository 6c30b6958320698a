-- The claimed actions are pending again, those with limit keys in their queues; no attempt is counted.
update scheduled_actions a
set
  status = 'pending',
  parked_by = case when a.limit_keys is not null then 'limit' end,
  claim_token = null,
  lease_expires_at = null,
  executor = null,
  announced_at = null,
  worker_id = null,
  updated_at = scheduled_actions_now()
where a.id = any (%(ids)s::uuid[]) and a.status = 'processing'
