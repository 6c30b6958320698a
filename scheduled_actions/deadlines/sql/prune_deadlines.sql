-- At most `limit` deadlines closed more than `retention_days` ago are deleted, oldest first, with their receipts. A deadline
-- whose status actions wait for is kept.
delete from scheduled_action_deadlines d
where d.id = any (array(
  select o.id
  from scheduled_action_deadlines o
  where o.closed_at < scheduled_actions_now() - make_interval(days => %(retention_days)s)
    and not exists (select from scheduled_action_waits w where w.topic = o.id)
  order by o.closed_at
  limit %(limit)s
  for update skip locked
))
