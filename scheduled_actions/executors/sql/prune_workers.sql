-- At most `limit` workers that were last seen more than a day ago are deleted, unless rescue still needs their row.
delete from scheduled_action_workers w
where w.id = any (array(
  select o.id
  from scheduled_action_workers o
  where o.seen_at < scheduled_actions_now() - interval '1 day'
    and not exists (
      select
      from scheduled_actions a
      where a.id = any (o.running) and a.status = 'processing' and a.worker_id = o.id
    )
  limit %(limit)s
  for update skip locked
))
