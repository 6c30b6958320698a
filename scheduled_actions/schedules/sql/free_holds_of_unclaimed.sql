-- No lock group is held by any of these actions, which are pending again, but by a blocking member that has begun.
delete from scheduled_action_holds h
using scheduled_actions a
where h.action_id = any (%(ids)s::uuid[])
  and a.id = h.action_id
  and not (a.lock_group_blocks and (a.attempts > 0 or a.history <> '[]'))
