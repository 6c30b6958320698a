-- No lock group is held and no slot used by these actions.
with freed_slots as (
  delete from scheduled_action_limit_slots l where l.action_id = any (%(ids)s::uuid[]) and l.busy_until is null
)
delete from scheduled_action_holds h where h.action_id = any (%(ids)s::uuid[])
