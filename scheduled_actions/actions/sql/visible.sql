-- Returns which of these actions are committed.
select a.id from scheduled_actions a where a.id = any (%(ids)s::uuid[])
