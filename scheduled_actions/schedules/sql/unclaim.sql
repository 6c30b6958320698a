-- The claimed actions are pending again; no attempt is counted.
update scheduled_actions a
set status = 'pending', claim_token = null, lease_expires_at = null, updated_at = scheduled_actions_now()
where a.id = any (%(ids)s::uuid[]) and a.status = 'processing'
