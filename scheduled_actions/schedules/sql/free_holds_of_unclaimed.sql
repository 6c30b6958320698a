-- No lock group is held by these actions, which are pending again, except by those that block their group and have
-- started.
delete from scheduled_action_holds h
using scheduled_actions a
where h.action_id = any (%(ids)s::uuid[])
  and a.id = h.action_id
  and not (a.lock_group_blocks and (a.attempts > 0 or a.history <> '[]'))
