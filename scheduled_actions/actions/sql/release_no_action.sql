-- Actions that had waited for a build with their handler are pending again; of these `ids`, or of any where it is null.
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
