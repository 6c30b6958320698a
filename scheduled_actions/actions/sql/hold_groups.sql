-- The lock groups of the next `window` due grouped actions belong to this transaction if no other transaction holds
-- them: by a new hold, or by one that a blocking action kept while it was pending (`kept`). At most `most` holds are
-- new, and none belong to an excluded team ('' is the team of actions without one).
-- Actions with limit keys are parked in the queue of their first key.
-- Also returns the last row read, as the position of the next scan, whether more may follow, and whether actions were
-- parked.
with recursive priorities (priority) as (
  select coalesce(%(after_priority)s::smallint, (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is not null and a.parked_by is null
    order by a.priority
    limit 1
  ))
  union all
  select (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is not null and a.parked_by is null and a.priority > p.priority
    order by a.priority
    limit 1
  )
  from priorities p
  where p.priority is not null
),
seen as materialized (
  select c.*
  from priorities p
  cross join lateral (
    select
      a.id, coalesce(a.team_id, '') as team_id, a.lock_group, a.priority, a.scheduled_at, a.action_type,
      a.limit_keys is not null as is_limited
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group is not null
      and a.parked_by is null
      and a.priority = p.priority
      and a.scheduled_at <= scheduled_actions_now()
      -- include: actions/after_position
      -- include: actions/not_of_executor
      -- include: actions/not_paused
    order by a.scheduled_at, a.id
    limit %(window)s
  ) c
  limit %(window)s
),
groups as materialized (
  select distinct on (s.team_id, s.lock_group) s.team_id, s.lock_group, s.id, s.priority, s.scheduled_at
  from seen s
  where not s.is_limited
    and s.action_type <> all (%(excluded)s::text[])
    and s.team_id <> all (%(left_out)s::text[])
    -- An insert would wait for another transaction that is deleting the hold.
    and not exists (
      select from scheduled_action_holds h where h.team_id = s.team_id and h.lock_group = s.lock_group
    )
  order by s.team_id, s.lock_group, s.priority, s.scheduled_at, s.id
),
kept as (
  select h.action_id
  from scheduled_action_holds h
  join seen s on s.id = h.action_id
  where h.busy_until is null
    and not s.is_limited
    and s.action_type <> all (%(excluded)s::text[])
    and s.team_id <> all (%(left_out)s::text[])
  for update of h skip locked
),
taken as (
  insert into scheduled_action_holds (team_id, lock_group, action_id)
  select o.team_id, o.lock_group, o.id
  from (select g.* from groups g order by g.priority, g.scheduled_at, g.id limit %(most)s) o
  order by o.team_id, o.lock_group
  on conflict do nothing
  returning team_id, lock_group
),
parked as (
  update scheduled_actions a
  set parked_by = 'limit'
  where a.id = any (array(
    select b.id
    from scheduled_actions b
    where b.id = any (array(select s.id from seen s where s.is_limited))
      and b.status = 'pending'
      and b.parked_by is null
      and b.scheduled_at <= scheduled_actions_now()
    for update skip locked
  ))
  returning a.id
)
select
  (select coalesce(array_agg(k.action_id), '{}') from kept k),
  (select coalesce(array_agg(t.team_id order by t.team_id, t.lock_group), '{}') from taken t),
  (select coalesce(array_agg(t.lock_group order by t.team_id, t.lock_group), '{}') from taken t),
  l.priority, l.scheduled_at::text, l.id, l.team_id, l.id is not null and (select count(*) from seen) >= %(window)s,
  exists (select from parked)
from (select 1) one
left join (
  select s.priority, s.scheduled_at, s.id, s.team_id
  from seen s
  order by s.priority desc, s.scheduled_at desc, s.id desc
  limit 1
) l on true
