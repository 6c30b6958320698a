-- Returns the outcomes of the latest occurrences of each schedule, newest first; one short index scan per schedule.
select s.schedule_id, o.id, o.status, o.occurrence_at
from unnest(%(ids)s::uuid[]) as s (schedule_id)
cross join lateral (
  select a.id, a.status, a.occurrence_at
  from scheduled_actions a
  where a.schedule_id = s.schedule_id
    and a.occurrence_at is not null
    and (a.status <> 'pending' or a.started_at is not null)
  order by a.occurrence_at desc
  limit %(limit)s
) o
