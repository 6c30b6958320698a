-- The rolling schedule references its occurrence that is running or waits for a retry. No row if there is none.
update scheduled_action_schedules s
set next_action_id = a.id, next_occurrence_at = a.occurrence_at, updated_at = scheduled_actions_now()
from scheduled_actions a
where s.id = %(schedule_id)s
  and a.id = (
    select w.id
    from scheduled_actions w
    where w.schedule_id = %(schedule_id)s and w.occurrence_at is not null and w.status in ('pending', 'processing')
    order by w.occurrence_at desc
    limit 1
  )
returning s.id
