-- These claimed actions are pending again, as if nobody had claimed them.
update scheduled_actions a
set status = 'pending', claim_token = null, lease_expires_at = null, updated_at = scheduled_actions_now()
where a.id = any (%(ids)s::uuid[]) and a.status = 'processing'
