-- The columns of one action that only its own machinery reads: the fence, the policy, the state of its dedup key.
select a.retry, a.condition, a.claim_token,
  a.waiting, a.on_success, a.on_failure, a.dedup_event, a.dedup_open
from scheduled_actions a
where a.id = %(id)s
