-- The claimed actions have limit keys, and are pending in the queues of the first of these; no attempt is counted. No lock
-- group is held by them, except by those that block their group and have started.
with given as materialized (
  select g.id, g.limit_keys
  from jsonb_to_recordset(%(given)s::jsonb) as g (id uuid, limit_keys text[])
),
queued as (
  update scheduled_actions a
  set
    status = 'pending',
    limit_keys = g.limit_keys,
    parked_by = 'limit',
    claim_token = null,
    lease_expires_at = null,
    executor = null,
    announced_at = null,
    worker_id = null,
    updated_at = scheduled_actions_now()
  from given g
  where a.id = g.id and a.id = any (array(select n.id from given n)) and a.status = 'processing'
  returning a.id, a.lock_group_blocks and (a.attempts > 0 or a.history <> '[]') as keeps_group
)
delete from scheduled_action_holds h
using queued q
where h.action_id = q.id and not q.keeps_group
