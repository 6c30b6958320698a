-- Returns the ids of at most `limit` `no_action` actions that have not changed for `days`, and whose type has no handler in
-- this build; locks nothing.
select a.id
from scheduled_actions a
where a.status = 'no_action'
  and a.action_type <> all (%(action_types)s::text[])
  and a.updated_at < scheduled_actions_now() - make_interval(days => %(days)s)
limit %(limit)s
