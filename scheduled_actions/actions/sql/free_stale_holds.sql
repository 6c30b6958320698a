-- Holds of late handlers whose lease has ended are deleted, except those of a pending action that blocks its group.
-- Holds of actions that are neither running nor pending are also deleted; deleting action rows manually leaves such
-- holds. The same applies to slots.
with stale_slots as (
  select l.action_id, l.claim_token, l.limit_key
  from scheduled_action_limit_slots l
  left join scheduled_actions a on a.id = l.action_id and a.claim_token = l.claim_token
  where (
      l.busy_until < scheduled_actions_now()
      or l.busy_until is null and l.acquired_at < scheduled_actions_now() - interval '1 minute'
    )
    and a.id is null
  limit 1000
  for update of l skip locked
),
freed_slots as (
  delete from scheduled_action_limit_slots l
  using stale_slots s
  where l.action_id = s.action_id and l.claim_token = s.claim_token and l.limit_key = s.limit_key
),
stale as (
  select h.team_id, h.lock_group
  from scheduled_action_holds h
  left join scheduled_actions a on a.id = h.action_id
  where (
      h.busy_until < scheduled_actions_now()
      or h.busy_until is null and h.acquired_at < scheduled_actions_now() - interval '1 minute'
    )
    and (a.id is null or a.status not in ('processing', 'pending') or a.status = 'pending' and not a.lock_group_blocks)
  limit 1000
  for update of h skip locked
),
freed as (
  delete from scheduled_action_holds h
  using stale s
  where h.team_id = s.team_id and h.lock_group = s.lock_group
)
update scheduled_action_holds h
set busy_until = null
from scheduled_actions a
where a.id = h.action_id and a.status = 'pending' and a.lock_group_blocks and h.busy_until < scheduled_actions_now()
