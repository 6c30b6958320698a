-- Actions whose lease has ended are locked until the transaction ends. Returns them, each with the number of actions that
-- its tick announced as started, or that its worker had taken over.
-- `ExpiredLease` relies on the order of the columns.
select
  a.id, a.action_type, a.attempts, a.max_attempts, a.claim_token, a.retry::text, a.lock_group, a.lock_group_blocks, a.limit_keys,
  a.history -> -1 ->> 'outcome', a.schedule_id,
  case
    when a.announced_at is null then coalesce(cardinality(t.running), 0)
    -- The worker may have written its row again since then, or its row may be gone.
    else 1 + coalesce(cardinality(array_remove(w.running, a.id)), 0)
  end,
  extract(epoch from coalesce(a.announced_at, t.started_at))::float8, t.id, a.worker_id
from scheduled_actions a
left join lateral (
  select k.id, k.running, k.started_at
  from scheduled_action_ticks k
  -- An announcement counts for the claim that it was made under: an earlier tick may have announced the action, too.
  where k.finished_at is null and k.lease_expires_at = a.lease_expires_at and a.id = any (k.running)
  limit 1
) t on true
-- The worker's row is read only for actions that it has taken over.
left join scheduled_action_workers w on w.id = a.worker_id
where a.status = 'processing' and a.lease_expires_at < scheduled_actions_now()
order by a.lease_expires_at
limit %(limit)s
for update of a skip locked
