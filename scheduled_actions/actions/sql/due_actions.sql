-- Returns how many actions are due and not parked (at most `most` with and `most` without a lock group), how many of those
-- have been due for longer than `overdue_seconds`, and for how many seconds the oldest of those, and of the first due
-- actions of each priority, has been due; then how many due actions are in the queues of limit keys, and how many are
-- parked by pauses (at most `most` each). Reads the claim indexes priority by priority, so that actions scheduled for
-- later cost nothing. The last number is that of due actions in the queues of executors.
with recursive
-- include: actions/waiting_priorities,
due as (
  (
    select h.due_since
    from free f
    cross join lateral (
      select
        -- include: actions/due_since
      from scheduled_actions a
      where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority = f.priority
        and a.scheduled_at <= scheduled_actions_now()
      order by a.scheduled_at
      limit %(most)s
    ) h
    limit %(most)s
  )
  union all
  (
    select h.due_since
    from grouped g
    cross join lateral (
      select
        -- include: actions/due_since
      from scheduled_actions a
      where a.status = 'pending' and a.lock_group is not null and a.parked_by is null and a.priority = g.priority
        and a.scheduled_at <= scheduled_actions_now()
      order by a.scheduled_at
      limit %(most)s
    ) h
    limit %(most)s
  )
),
first_due as (
  select h.due_since
  from free f
  cross join lateral (
    select
      -- include: actions/due_since
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority = f.priority
      and a.scheduled_at <= scheduled_actions_now()
    order by a.scheduled_at
    limit 1
  ) h
  union all
  select h.due_since
  from grouped g
  cross join lateral (
    select
      -- include: actions/due_since
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is not null and a.parked_by is null and a.priority = g.priority
      and a.scheduled_at <= scheduled_actions_now()
    order by a.scheduled_at
    limit 1
  ) h
)
select
  count(*),
  count(*) filter (where d.due_since <= scheduled_actions_now() - make_interval(secs => %(overdue_seconds)s)),
  extract(epoch from scheduled_actions_now() - least(min(d.due_since), (select min(h.due_since) from first_due h)))
    ::double precision,
  (
    select count(*)
    from (
      select
      from scheduled_actions a
      where a.status = 'pending' and a.parked_by = 'limit' and a.scheduled_at <= scheduled_actions_now()
      order by a.parked_by, a.priority, a.scheduled_at, a.id
      limit %(most)s
    ) queued
  ),
  (
    select count(*)
    from (
      select
      from scheduled_actions a
      -- The id of a pause begins with a hexadecimal digit.
      where a.status = 'pending' and a.parked_by < 'g' and a.scheduled_at <= scheduled_actions_now()
      order by a.parked_by, a.priority, a.scheduled_at, a.id
      limit %(most)s
    ) paused
  ),
  (
    select count(*)
    from (
      select
      from scheduled_actions a
      -- The name of a queue begins with "queue:", the only other value with "limit".
      where a.status = 'pending' and a.parked_by > 'm' and a.scheduled_at <= scheduled_actions_now()
      order by a.parked_by, a.priority, a.scheduled_at, a.id
      limit %(most)s
    ) for_executors
  )
from due d
