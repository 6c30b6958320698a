-- Locks at most `wanted` due actions without a lock group, from the next `window` after a position, of teams that are
-- not excluded ('' is the team of actions without one), except those with limit keys. They can then be claimed by id in
-- this transaction.
-- Also returns the position for the next scan, and whether more may follow. Excluded rows are read and dropped one by
-- one, because collecting the others first takes five times as long.
with recursive
-- include: actions/priorities_from,
others as materialized (
  select c.id, c.priority, c.scheduled_at
  from (
    select c.*
    from priorities p
    cross join lateral (
      select
        a.id, coalesce(a.team_id, '') as team_id, a.priority, a.scheduled_at, a.action_type, a.limit_keys
      from scheduled_actions a
      where a.status = 'pending'
        and a.lock_group is null
        and a.parked_by is null
        and a.priority = p.priority
        and a.scheduled_at <= scheduled_actions_now()
        -- include: actions/after_position
      order by a.scheduled_at, a.id
      limit %(window)s
    ) c
    limit %(window)s
  ) c
  where c.team_id <> all (%(left_out)s::text[]) and c.action_type <> all (%(excluded)s::text[]) and c.limit_keys is null
  limit %(wanted)s
),
locked as (
  select a.id
  from scheduled_actions a
  where a.id = any (array(select o.id from others o))
    and a.status = 'pending'
    and a.lock_group is null
    and a.parked_by is null
    and a.scheduled_at <= scheduled_actions_now()
    -- include: actions/not_of_executor
    -- include: actions/not_paused
  for update of a skip locked
),
-- The last row of the window; none if there are fewer due actions.
last_seen as materialized (
  select c.priority, c.scheduled_at, c.id
  from priorities p
  cross join lateral (
    select a.priority, a.scheduled_at, a.id
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group is null
      and a.parked_by is null
      and a.priority = p.priority
      and a.scheduled_at <= scheduled_actions_now()
      and (a.scheduled_at, a.id) > (
        case when p.priority = %(after_priority)s::smallint then %(after_at)s::timestamptz else '-infinity' end,
        case when p.priority = %(after_priority)s::smallint then %(after_id)s::uuid
          else '00000000-0000-0000-0000-000000000000' end
      )
    order by a.scheduled_at, a.id
    limit %(window)s
  ) c
  where (select count(*) from others) < %(wanted)s
  offset %(window)s - 1
  limit 1
),
last_found as (
  select o.priority, o.scheduled_at, o.id
  from others o
  where (select count(*) from others) >= %(wanted)s
  order by o.priority desc, o.scheduled_at desc, o.id desc
  limit 1
)
select
  (select coalesce(array_agg(l.id), '{}') from locked l),
  s.priority, s.scheduled_at::text, s.id, null::text, s.id is not null
from (select 1) one
left join (select * from last_found union all select * from last_seen) s on true
