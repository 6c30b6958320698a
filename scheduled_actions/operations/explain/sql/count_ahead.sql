-- Returns how many due actions without a lock group a claim takes before this position, at most `most`. Reads the claim
-- index priority by priority, so that actions scheduled for later cost nothing.
with recursive priorities (priority) as (
  select min(a.priority) from scheduled_actions a where a.status = 'pending' and a.lock_group is null and a.parked_by is null
  union all
  select (
    select min(a.priority)
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority > p.priority
  )
  from priorities p
  where p.priority < %(priority)s
)
select count(*)
from (
  (
    select
    from priorities p
    join scheduled_actions a on a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority = p.priority
      and a.scheduled_at <= scheduled_actions_now()
    where p.priority < %(priority)s
    limit %(most)s
  )
  union all
  (
    select
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority = %(priority)s
      and (a.scheduled_at, a.id) < (%(scheduled_at)s, %(id)s)
    limit %(most)s
  )
  limit %(most)s
) before_it
