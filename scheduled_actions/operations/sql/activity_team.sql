-- Returns the outcomes and lateness of a team's actions in the steps of a window, from the newest 1,000 completed and
-- 1,000 failed actions.
select
  floor(extract(epoch from e.completed_at - %(since)s) / %(step_seconds)s)::int,
  count(*) filter (where e.status = 'completed'),
  count(*) filter (where e.status = 'failed'),
  percentile_cont(0.5) within group (order by e.late_seconds),
  percentile_cont(0.95) within group (order by e.late_seconds)
from unnest(array['completed', 'failed']) s (status)
cross join lateral (
  select
    a.status, a.completed_at,
    -- include: actions/late_seconds
  from scheduled_actions a
  where a.team_id = %(team_id)s and a.status = s.status
  order by a.id desc nulls last
  limit 1000
) e
where e.completed_at >= %(since)s
group by 1
order by 1
