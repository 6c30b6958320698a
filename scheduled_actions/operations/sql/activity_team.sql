-- Returns the outcomes and lateness of a team's actions in the steps of a window, from the newest 1,000 completed and
-- 1,000 failed actions.
select
  floor(extract(epoch from a.completed_at - %(since)s) / %(step_seconds)s)::int,
  count(*) filter (where a.status = 'completed'),
  count(*) filter (where a.status = 'failed'),
  percentile_cont(0.5) within group (order by a.late)::double precision,
  percentile_cont(0.95) within group (order by a.late)::double precision
from unnest(array['completed', 'failed']) s (status)
cross join lateral (
  select
    m.status, m.completed_at,
    case when isfinite(m.scheduled_at) then greatest(extract(epoch from m.started_at - m.scheduled_at), 0) end as late
  from scheduled_actions m
  where m.team_id = %(team_id)s and m.status = s.status
  order by m.id desc nulls last
  limit 1000
) a
where a.completed_at >= %(since)s
group by 1
order by 1
