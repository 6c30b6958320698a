-- Holds of late handlers whose lease has ended are deleted, except those of a pending action that blocks its group.
-- Holds of actions that are neither running nor pending are also deleted; deleting action rows manually leaves such
-- holds.
with stale as (
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
