-- The slots of a timed-out handler that has now returned are free, as is its lock group, unless its action blocks the group
-- until its retry.
with freed_slots as (
  delete from scheduled_action_limit_slots l
  where l.action_id = %(action_id)s and l.claim_token = %(token)s and l.busy_until is not null
),
kept as (
  update scheduled_action_holds h
  set busy_until = null
  from scheduled_actions a
  where h.action_id = %(action_id)s and h.busy_until is not null and a.id = h.action_id
    and a.status = 'pending' and a.lock_group_blocks
  returning h.action_id
)
delete from scheduled_action_holds h
where h.action_id = %(action_id)s and h.busy_until is not null and not exists (select from kept)
