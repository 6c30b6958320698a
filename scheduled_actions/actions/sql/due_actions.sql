-- Returns how many actions are due (at most `most` with and `most` without a lock group), how many of those have been
-- due for longer than `overdue_seconds`, and for how many seconds the oldest due action has been due. Reads the claim
-- indexes priority by priority, so that actions scheduled for later cost nothing.
with recursive
-- include: actions/waiting_priorities,
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
