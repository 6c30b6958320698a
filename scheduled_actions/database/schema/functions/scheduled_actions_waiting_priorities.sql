-- Returns the priorities of pending actions, with a lock group and without. Each is found by one step in its claim index, however
-- many actions have it.
create or replace function scheduled_actions_waiting_priorities() returns table (is_grouped boolean, priority smallint)
  language sql stable rows 4
  as $$
    with recursive free (priority) as (
      (select a.priority from scheduled_actions a where a.status = 'pending' and a.lock_group is null order by a.priority limit 1)
      union all
      select (
        select a.priority
        from scheduled_actions a
        where a.status = 'pending' and a.lock_group is null and a.priority > p.priority
        order by a.priority
        limit 1
      )
      from free p
      where p.priority is not null
    ),
    grouped (priority) as (
      (select a.priority from scheduled_actions a where a.status = 'pending' and a.lock_group is not null order by a.priority limit 1)
      union all
      select (
        select a.priority
        from scheduled_actions a
        where a.status = 'pending' and a.lock_group is not null and a.priority > p.priority
        order by a.priority
        limit 1
      )
      from grouped p
      where p.priority is not null
    )
    select false, f.priority from free f where f.priority is not null
    union all
    select true, g.priority from grouped g where g.priority is not null
  $$;
