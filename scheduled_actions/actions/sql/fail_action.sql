-- The action is failed with the reason and its lock group and slots are free, if its claim is still valid. No other column of its
-- row is read, because the row may be unreadable.
with failed as (
  update scheduled_actions a
  set
    status = 'failed',
    error_message = %(reason)s,
    completed_at = scheduled_actions_now(),
    claim_token = null,
    lease_expires_at = null,
    executor = null,
    announced_at = null,
    worker_id = null,
    parked_by = null,
    updated_at = scheduled_actions_now()
  where a.id = %(action_id)s and a.claim_token = %(token)s
  returning a.id
),
freed_slots as (
  delete from scheduled_action_limit_slots l
  using failed f
  where l.action_id = f.id and l.claim_token = %(token)s
),
freed as (
  delete from scheduled_action_holds h
  using failed f
  where h.action_id = f.id
)
select f.id from failed f
