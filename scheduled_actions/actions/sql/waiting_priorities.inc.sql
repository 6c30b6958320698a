-- Common table expressions `free` and `grouped`: the priorities of pending actions without and with a lock group, each
-- list ending with a null. Each priority takes one index lookup, however many actions have it.
free (priority) as (
  (select a.priority from scheduled_actions a where a.status = 'pending' and a.lock_group is null and a.parked_by is null order by a.priority limit 1)
  union all
  select (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority > p.priority
    order by a.priority
    limit 1
  )
  from free p
  where p.priority is not null
),
grouped (priority) as (
  (select a.priority from scheduled_actions a where a.status = 'pending' and a.lock_group is not null and a.parked_by is null order by a.priority limit 1)
  union all
  select (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is not null and a.parked_by is null and a.priority > p.priority
    order by a.priority
    limit 1
  )
  from grouped p
  where p.priority is not null
)
