-- `no_action` actions whose type has a handler in this build are pending again: those in `ids` (null: all), at most
-- 10,000.
update scheduled_actions a
set status = 'pending', error_message = null, updated_at = scheduled_actions_now()
where a.id = any (array(
  select w.id
  from scheduled_actions w
  where w.status = 'no_action' and w.action_type = any (%(action_types)s::text[])
    and (%(ids)s::uuid[] is null or w.id = any (%(ids)s))
  limit 10000
  for update skip locked
))
