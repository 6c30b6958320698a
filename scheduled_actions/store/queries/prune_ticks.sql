-- At most `limit` ticks past the retention are gone, the oldest first.
delete from scheduled_action_ticks t
where t.id = any (array(
  select o.id
  from scheduled_action_ticks o
  where o.started_at < scheduled_actions_now() - make_interval(days => %(retention_days)s) and o.finished_at is not null
  order by o.started_at
  limit %(limit)s
))
