-- Common table expression `priorities`: those of pending actions without a lock group, from the position of a scan on. The
-- last one is null. Each takes one index lookup.
priorities (priority) as (
  select coalesce(%(after_priority)s::smallint, (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null
    order by a.priority
    limit 1
  ))
  union all
  select (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority > p.priority
    order by a.priority
    limit 1
  )
  from priorities p
  where p.priority is not null
)
