-- Returns the number of a team's pending and ended actions on each of several days by status, type, schedule and
-- deadline, counting the newest `most` per status. Actions that mark a deadline missed or create the next one are left
-- out.
with days as (
  select %(starts)s::timestamptz[] as starts, (%(ends)s::timestamptz[])[cardinality(%(ends)s::timestamptz[])] as ends_at
),
named as (
  select
    case when a.at < days.ends_at then width_bucket(a.at, days.starts) end as day, a.*, coalesce(d.name, n.name, a.action_type) as title,
    a.action_type not in ('deadline:miss', 'deadline:renew')
      and (%(user)s::text is null or a.user_id is not distinct from %(user)s
        or coalesce(d.recipients @> jsonb_build_array(%(user)s::text), false)
        or coalesce(d.recipients @> jsonb_build_array(jsonb_build_object('id', %(user)s::text)), false)) as is_wanted
  from days
  cross join unnest(array['pending', 'completed', 'failed', 'cancelled', 'skipped']) s (status)
  cross join lateral (
    select
      m.id, m.status, m.action_type, m.user_id,
      case when m.status = 'pending' then m.scheduled_at else m.completed_at end as at,
      case when m.status = 'pending' then m.schedule_id end as schedule_id,
      case when m.status = 'pending' then m.deadline_id end as deadline_id
    from scheduled_actions m
    where m.team_id = %(team_id)s and m.status = s.status
    order by m.id desc nulls last
    limit %(most)s
  ) a
  left join scheduled_action_deadlines d on d.id = a.deadline_id
  left join scheduled_action_schedules n on n.id = a.schedule_id
)
select
  t.day, t.status, t.action_type, t.schedule_id, t.deadline_id, t.title,
  count(*) filter (where t.is_wanted),
  min(t.at) filter (where t.is_wanted),
  (array_agg(t.id) filter (where t.is_wanted))[1],
  count(*)
from named t
group by t.day, t.status, t.action_type, t.schedule_id, t.deadline_id, t.title
