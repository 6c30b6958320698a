-- How many actions are due, counted to 10,000. Walks the claims' own indexes priority by priority, so that a million
-- rows of later instants cost nothing.
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
)
select count(*)
from (
  select
  from (
    select
    from free f
    join scheduled_actions a on a.status = 'pending' and a.lock_group is null and a.priority = f.priority
      and a.scheduled_at <= scheduled_actions_now()
    limit 10000
  ) due_free
  union all
  select
  from (
    select
    from grouped g
    join scheduled_actions a on a.status = 'pending' and a.lock_group is not null and a.priority = g.priority
      and a.scheduled_at <= scheduled_actions_now()
    limit 10000
  ) due_grouped
  limit 10000
) due
