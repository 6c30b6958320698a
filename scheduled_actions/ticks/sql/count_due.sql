-- Returns the number of due actions that ticks run and no pause has parked, at most 10,000. Reads the indexes of the claims
-- priority by priority, so that actions due later are not read.
with recursive
-- include: actions/waiting_priorities
select count(*)
from (
  select
  from (
    select
    from free f
    join scheduled_actions a on a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority = f.priority
      and a.scheduled_at <= scheduled_actions_now()
      -- include: actions/not_of_executor
    limit 10000
  ) due_free
  union all
  select
  from (
    select
    from grouped g
    join scheduled_actions a on a.status = 'pending' and a.lock_group is not null and a.parked_by is null and a.priority = g.priority
      and a.scheduled_at <= scheduled_actions_now()
      -- include: actions/not_of_executor
    limit 10000
  ) due_grouped
  union all
  select
  from (
    select
    from scheduled_actions a
    where a.status = 'pending' and a.parked_by = 'limit'
      -- include: actions/not_of_executor
    -- By the index; without an order, a scan of all actions would look as cheap.
    order by a.limit_keys[1], coalesce(a.team_id, ''), a.priority, a.scheduled_at, a.id
    limit 10000
  ) due_queued
  union all
  select
  from scheduled_action_pauses p
  cross join lateral (
    select
    from scheduled_actions a
    where a.status = 'pending' and a.parked_by = p.id::text
    order by a.priority, a.scheduled_at, a.id
    limit 10000
  ) returning_from
  where p.ends_at <= scheduled_actions_now()
  limit 10000
) due
