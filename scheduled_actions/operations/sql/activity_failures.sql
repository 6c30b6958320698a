-- Returns the action types with failures since an instant, most frequent first, each with its latest failure, from the
-- newest 1,000 failures (of the team).
with failed as materialized (
  (
    select f.id, f.action_type, f.completed_at, f.error_message
    from scheduled_actions f
    where %(team_id)s::text is null and f.status = 'failed' and f.completed_at >= %(since)s
    order by f.completed_at desc
    limit 1000
  )
  union all
  (
    select m.id, m.action_type, m.completed_at, m.error_message
    from scheduled_actions m
    where m.team_id = %(team_id)s and m.status = 'failed'
    order by m.id desc nulls last
    limit 1000
  )
)
select
  f.action_type,
  count(*),
  max(f.completed_at),
  (array_agg(f.id order by f.completed_at desc, f.id desc))[1],
  (array_agg(left(f.error_message, 400) order by f.completed_at desc, f.id desc))[1]
from failed f
where f.completed_at >= %(since)s
group by f.action_type
order by count(*) desc, f.action_type
limit %(limit)s
