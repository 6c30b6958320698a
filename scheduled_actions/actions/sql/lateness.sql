-- Returns the lateness of actions (of a team) by type, for those that ended within `seconds`: the latest `most`
-- completed and as many failed ones. `scheduled_at` is when the last attempt became due; it does not change afterwards.
with ended as (
  select e.action_type, e.started_at, e.scheduled_at
  from unnest(array['completed', 'failed']) s (status)
  cross join lateral (
    select a.action_type, a.started_at, a.scheduled_at
    from scheduled_actions a
    where a.status = s.status
      and a.completed_at > scheduled_actions_now() - make_interval(secs => %(seconds)s)
    order by a.completed_at desc
    limit %(most)s
  ) e
  where %(team_id)s::text is null
  union all
  select e.action_type, e.started_at, e.scheduled_at
  from unnest(array['completed', 'failed']) s (status)
  cross join lateral (
    select a.action_type, a.started_at, a.scheduled_at, a.completed_at
    from scheduled_actions a
    where a.team_id = %(team_id)s and a.status = s.status
    order by a.id desc nulls last
    limit %(most)s
  ) e
  where e.completed_at > scheduled_actions_now() - make_interval(secs => %(seconds)s)
),
late as (
  select e.action_type, greatest(0, extract(epoch from e.started_at - e.scheduled_at))::double precision as seconds
  from ended e
  where e.started_at is not null and isfinite(e.scheduled_at)
)
select
  l.action_type,
  count(*),
  percentile_cont(0.5) within group (order by l.seconds),
  percentile_cont(0.95) within group (order by l.seconds),
  max(l.seconds)
from late l
group by l.action_type
order by l.action_type
