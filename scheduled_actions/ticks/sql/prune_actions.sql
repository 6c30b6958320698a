-- At most `limit` finished actions past their retention are deleted, by status, the oldest first; if `ids` is not null, only
-- those.
with old as materialized (
  select o.id
  from (values
    ('completed', %(retention_days)s), ('cancelled', %(retention_days)s), ('skipped', %(retention_days)s),
    ('failed', %(retention_failed_days)s)
  ) kept (status, days)
  cross join lateral (
    select a.id
    from scheduled_actions a
    where a.status = kept.status
      and (%(ids)s::uuid[] is null or a.id = any (%(ids)s))
      and a.completed_at < scheduled_actions_now() - make_interval(days => kept.days)
      -- Actions that others wait for are kept until the waiting actions have been woken.
      and not (a.has_waiters and exists (select from scheduled_action_waits w where w.topic = a.id))
    order by a.completed_at
    limit %(limit)s
    for update of a skip locked
  ) o
  limit %(limit)s
)
delete from scheduled_actions a
where a.id = any (array(select o.id from old o))
