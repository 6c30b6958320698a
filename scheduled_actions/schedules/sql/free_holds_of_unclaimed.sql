-- No slot is used by these actions, which are pending again, and no lock group is held by them, except by those that block
-- their group and have started.
with freed_slots as (
  delete from scheduled_action_limit_slots l where l.action_id = any (%(ids)s::uuid[]) and l.busy_until is null
)
delete from scheduled_action_holds h
using scheduled_actions a
where h.action_id = any (%(ids)s::uuid[])
  and a.id = h.action_id
  and not (a.lock_group_blocks and (a.attempts > 0 or a.history <> '[]'))
