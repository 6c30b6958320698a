-- Returns the claim columns of the actions whose ticket is valid: the action is claimed with the ticket's token, and its lease
-- has not ended. Locks nothing: the take-over checks the tickets again.
select
  -- include: actions/claim_columns
from unnest(%(ids)s::uuid[], %(tokens)s::uuid[]) t (id, token)
join scheduled_actions a on a.id = t.id
where a.id = any (%(ids)s::uuid[])
  and a.status = 'processing'
  and a.claim_token = t.token
  and a.announced_at is null
  and a.lease_expires_at > scheduled_actions_now()
