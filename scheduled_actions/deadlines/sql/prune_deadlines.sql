-- At most `limit` deadlines that ended before their retention are gone, the oldest first, and what was kept with them.
delete from scheduled_action_deadlines d
where d.id = any (array(
  select o.id
  from scheduled_action_deadlines o
  where o.closed_at < scheduled_actions_now() - make_interval(days => %(retention_days)s)
  order by o.closed_at
  limit %(limit)s
  for update skip locked
))
