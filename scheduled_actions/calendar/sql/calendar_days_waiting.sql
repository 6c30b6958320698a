-- Returns the number of pending actions on each of several days by type, schedule and deadline, counting the first
-- `most` per day and priority, with and without a lock group, and the first 10,000 parked actions. Actions that mark a
-- deadline missed or create the next one are left out.
with days as (
  select *
  from unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) with ordinality d (starts_at, ends_at, day)
),
waiting as (
  select d.day, w.*
  from days d
  cross join scheduled_actions_waiting_priorities() p
  cross join lateral (
    select
      a.id, a.scheduled_at, a.action_type, a.user_id, a.deadline_id, a.schedule_id
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group is null
      and a.parked_by is null
      and a.priority = p.priority
      and a.scheduled_at >= d.starts_at
      and a.scheduled_at < d.ends_at
    order by a.scheduled_at, a.id
    limit %(most)s
  ) w
  where not p.is_grouped
  union all
  select d.day, w.*
  from days d
  cross join scheduled_actions_waiting_priorities() p
  cross join lateral (
    select
      a.id, a.scheduled_at, a.action_type, a.user_id, a.deadline_id, a.schedule_id
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group is not null
      and a.parked_by is null
      and a.priority = p.priority
      and a.scheduled_at >= d.starts_at
      and a.scheduled_at < d.ends_at
    order by a.scheduled_at, a.id
    limit %(most)s
  ) w
  where p.is_grouped
  union all
  select d.day, w.*
  from (
    select a.id, a.scheduled_at, a.action_type, a.user_id, a.deadline_id, a.schedule_id
    from scheduled_actions a
    where a.status = 'pending' and a.parked_by is not null
    order by a.parked_by, a.priority, a.scheduled_at, a.id
    limit 10000
  ) w
  join days d on w.scheduled_at >= d.starts_at and w.scheduled_at < d.ends_at
),
named as (
  select
    w.*, coalesce(d.name, s.name, w.action_type) as title,
    w.action_type not in ('deadline:miss', 'deadline:renew')
      and (%(user)s::text is null or w.user_id is not distinct from %(user)s
        or coalesce(d.recipients @> jsonb_build_array(%(user)s::text), false)
        or coalesce(d.recipients @> jsonb_build_array(jsonb_build_object('id', %(user)s::text)), false)) as is_wanted
  from waiting w
  left join scheduled_action_deadlines d on d.id = w.deadline_id
  left join scheduled_action_schedules s on s.id = w.schedule_id
)
select
  t.day, 'pending', t.action_type, t.schedule_id, t.deadline_id, t.title,
  count(*) filter (where t.is_wanted),
  min(t.scheduled_at) filter (where t.is_wanted),
  (array_agg(t.id) filter (where t.is_wanted))[1],
  count(*)
from named t
group by t.day, t.action_type, t.schedule_id, t.deadline_id, t.title
