-- Returns the median duration of handlers by type, from the latest ten thousand completed actions.
select c.action_type, percentile_cont(0.5) within group (order by extract(epoch from c.completed_at - c.started_at))
from (
  select a.action_type, a.started_at, a.completed_at
  from scheduled_actions a
  where a.status = 'completed' and a.completed_at is not null
  order by a.completed_at desc
  limit 10000
) c
where c.started_at is not null
group by c.action_type
