-- Returns the internal columns of an action: claim, retry policy and state of its dedup key.
select a.retry, a.condition, a.claim_token,
  a.waiting, a.on_success, a.on_failure, a.dedup_event, a.dedup_open
from scheduled_actions a
where a.id = %(id)s
