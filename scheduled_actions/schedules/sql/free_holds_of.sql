-- No lock group is held by these actions.
delete from scheduled_action_holds h where h.action_id = any (%(ids)s::uuid[])
