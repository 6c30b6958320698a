-- Those of the locked pauses that still have ended and park no action are deleted.
delete from scheduled_action_pauses p
where p.id = any (%(ids)s::uuid[])
  and p.ends_at <= scheduled_actions_now()
  and not exists (select from scheduled_actions a where a.status = 'pending' and a.parked_by = p.id::text)
