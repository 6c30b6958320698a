-- Returns internal columns of an action: claim, retry policy, condition, follow-ups, and the state of its wait and its
-- dedup key.
select a.retry, a.condition, a.claim_token,
  a.waiting, a.on_success, a.on_failure, a.dedup_event, a.dedup_open
from scheduled_actions a
where a.id = %(id)s
