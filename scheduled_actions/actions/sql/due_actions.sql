-- How many actions are due, how many have been for longer (each counted to `most`), and since how many seconds the oldest
-- is. Walks the claims' own indexes priority by priority, so that a million rows of later instants cost nothing.
with recursive free (priority) as (
  select min(a.priority) from scheduled_actions a where a.status = 'pending' and a.lock_group is null
  union all
  select (
    select min(a.priority)
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.priority > f.priority
  )
  from free f
  where f.priority is not null
),
grouped (priority) as (
  select min(a.priority) from scheduled_actions a where a.status = 'pending' and a.lock_group is not null
  union all
  select (
    select min(a.priority)
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is not null and a.priority > g.priority
  )
  from grouped g
  where g.priority is not null
),
oldest as (
  select min(o.scheduled_at) as scheduled_at
  from (
    select (
      select min(a.scheduled_at)
      from scheduled_actions a
      where a.status = 'pending' and a.lock_group is null and a.priority = f.priority and isfinite(a.scheduled_at)
    ) as scheduled_at
    from free f
    union all
    select (
      select min(a.scheduled_at)
      from scheduled_actions a
      where a.status = 'pending' and a.lock_group is not null and a.priority = g.priority and isfinite(a.scheduled_at)
    )
    from grouped g
  ) o
)
select
  count(*),
  count(*) filter (where due.scheduled_at <= scheduled_actions_now() - make_interval(secs => %(overdue_seconds)s)),
  (
    select extract(epoch from scheduled_actions_now() - o.scheduled_at)::double precision
    from oldest o
    where o.scheduled_at <= scheduled_actions_now()
  )
from (
  (
    select a.scheduled_at
    from free f
    join scheduled_actions a on a.status = 'pending' and a.lock_group is null and a.priority = f.priority
      and a.scheduled_at <= scheduled_actions_now()
    limit %(most)s
  )
  union all
  (
    select a.scheduled_at
    from grouped g
    join scheduled_actions a on a.status = 'pending' and a.lock_group is not null and a.priority = g.priority
      and a.scheduled_at <= scheduled_actions_now()
    limit %(most)s
  )
) due
