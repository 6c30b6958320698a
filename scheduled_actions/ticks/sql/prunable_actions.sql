-- The ids of at most `limit` finished actions past their retention, the oldest first; nothing is locked.
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
    -- What others wait for is kept until they have been woken.
    and not (a.awaited and exists (select from scheduled_action_waits w where w.topic = a.id))
  order by a.completed_at
  limit %(limit)s
) o
limit %(limit)s
