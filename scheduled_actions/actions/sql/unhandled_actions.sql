-- Returns the ids of at most 1,000 `no_action` actions whose type has a handler in this build; locks nothing.
select a.id
from scheduled_actions a
where a.status = 'no_action' and a.action_type = any (%(action_types)s::text[])
limit 1000
