-- Returns the lateness of actions (of a team) by type, for those that ended within `seconds`: the latest `most`
-- completed and as many failed ones. `scheduled_at` is when the last attempt became due; it does not change afterwards.
with ended as (
  select e.action_type, e.late_seconds
  from unnest(array['completed', 'failed']) s (status)
  cross join lateral (
    select
      a.action_type,
      -- include: actions/late_seconds
    from scheduled_actions a
    where a.status = s.status
      and a.completed_at > scheduled_actions_now() - make_interval(secs => %(seconds)s)
    order by a.completed_at desc
    limit %(most)s
  ) e
  where %(team_id)s::text is null
  union all
  select e.action_type, e.late_seconds
  from unnest(array['completed', 'failed']) s (status)
  cross join lateral (
    select
      a.action_type, a.completed_at,
      -- include: actions/late_seconds
    from scheduled_actions a
    where a.team_id = %(team_id)s and a.status = s.status
    order by a.id desc nulls last
    limit %(most)s
  ) e
  where e.completed_at > scheduled_actions_now() - make_interval(secs => %(seconds)s)
)
select
  e.action_type,
  count(*),
  percentile_cont(0.5) within group (order by e.late_seconds),
  percentile_cont(0.95) within group (order by e.late_seconds),
  max(e.late_seconds)
from ended e
where e.late_seconds is not null
group by e.action_type
order by e.action_type
