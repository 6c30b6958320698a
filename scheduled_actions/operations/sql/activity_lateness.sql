-- Returns the median and 95th percentile of the lateness in each step of a window, from the first 60 actions completed
-- in the step.
select
  b.step,
  percentile_cont(0.5) within group (order by s.late_seconds),
  percentile_cont(0.95) within group (order by s.late_seconds)
from generate_series(0, %(steps)s - 1) b (step)
cross join lateral (
  select
    -- include: actions/late_seconds
  from scheduled_actions a
  where a.status = 'completed'
    and a.completed_at >= %(since)s::timestamptz + make_interval(secs => b.step * %(step_seconds)s)
    and a.completed_at < %(since)s::timestamptz + make_interval(secs => (b.step + 1) * %(step_seconds)s)
    and isfinite(a.scheduled_at)
  order by a.completed_at
  limit 60
) s
group by b.step
order by b.step
