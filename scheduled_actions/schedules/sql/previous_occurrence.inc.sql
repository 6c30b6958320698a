-- The latest earlier occurrence of a schedule `s` that was not skipped: one row if the schedule requires that it has
-- completed, and neither it nor a manual run since has.
select p.id, p.status, p.occurrence_at, p.updated_at
from (
  select a.id, a.status, a.occurrence_at, a.updated_at
  from scheduled_actions a
  where s.requires_previous
    and a.schedule_id = s.id
    and a.occurrence_at < s.next_occurrence_at
    and a.status <> 'skipped'
  order by a.occurrence_at desc
  limit 1
) p
where p.status <> 'completed'
  and not exists (
    select
    from scheduled_actions r
    where r.schedule_id = s.id
      and r.occurrence_at is null
      and r.status = 'completed'
      and r.created_at > p.updated_at
  )
