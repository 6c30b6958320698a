-- The claimed occurrences are skipped, each with its reason.
update scheduled_actions a
set
  status = 'skipped',
  completed_at = scheduled_actions_now(),
  error_message = t.reason,
  claim_token = null,
  lease_expires_at = null,
  executor = null,
  announced_at = null,
  worker_id = null,
  history = scheduled_actions_append_history(a.history, jsonb_build_object(
    'outcome', 'skipped', 'at', scheduled_actions_now(), 'reason', t.reason)),
  updated_at = scheduled_actions_now()
from jsonb_to_recordset(%(skips)s::jsonb) as t (id uuid, reason text)
where a.id = t.id and a.status = 'processing'
