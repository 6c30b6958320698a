-- Returns the ids of at most `limit` finished actions past their retention, by status, the oldest first; locks nothing.
select o.id
from (values
  ('completed', %(retention_days)s), ('cancelled', %(retention_days)s), ('skipped', %(retention_days)s),
  ('failed', %(retention_failed_days)s)
) kept (status, days)
cross join lateral (
  select a.id
  from scheduled_actions a
  where a.status = kept.status
    and a.completed_at < scheduled_actions_now() - make_interval(days => kept.days)
    -- Actions that others wait for are kept until the waiting actions have been woken.
    and not (a.has_waiters and exists (select from scheduled_action_waits w where w.topic = a.id))
  order by a.completed_at
  limit %(limit)s
) o
limit %(limit)s
