-- A tick whose lease ended before it finished is closed, once its actions are rescued.
update scheduled_action_ticks t
set finished_at = scheduled_actions_now(), running = '{}', outcome = 'lost'
where t.finished_at is null
  and t.lease_expires_at < scheduled_actions_now()
  and not exists (
    select from scheduled_actions a
    where a.id = any (t.running) and a.status = 'processing' and a.lease_expires_at < scheduled_actions_now()
  )
