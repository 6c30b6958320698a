-- Returns the latest actions of a schedule that were started or have ended, newest first: its occurrences and manual
-- runs. Two short index scans, however many actions there are.
select
  -- include: actions/action_columns
from scheduled_actions a
where a.id = any (array(
  (
    select o.id
    from scheduled_actions o
    where o.schedule_id = %(schedule_id)s
      and o.occurrence_at is not null
      and (o.status <> 'pending' or o.started_at is not null)
    order by o.occurrence_at desc
    limit %(limit)s
  )
  union all
  (
    select r.id
    from scheduled_actions r
    where r.schedule_id = %(schedule_id)s
      and r.occurrence_at is null
      and (r.status <> 'pending' or r.started_at is not null)
    order by r.id desc
    limit %(limit)s
  )
))
order by coalesce(a.occurrence_at, a.created_at) desc, a.id desc
limit %(limit)s
