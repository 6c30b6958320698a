-- The planned occurrence is deleted, the actions that wait for it are woken, and the schedule references none. An
-- occurrence that is running or waits for a retry stays referenced. Returns whether one was deleted.
with gone as (
  delete from scheduled_actions a
  using scheduled_action_schedules s
  where s.id = %(schedule_id)s
    and a.id = s.next_action_id
    and a.status in ('pending', 'no_action')
    and a.attempts = 0
    and a.started_at is null
  returning a.id, a.has_waiters
),
changed as (
  insert into scheduled_action_wakes (topic) select g.id from gone g where g.has_waiters
),
at_work as (
  select a.id
  from scheduled_action_schedules s
  join scheduled_actions a on a.id = s.next_action_id and a.status in ('pending', 'processing')
  where s.id = %(schedule_id)s and not exists (select from gone)
)
update scheduled_action_schedules s
set
  next_action_id = (select w.id from at_work w),
  next_occurrence_at = case when exists (select from at_work) then s.next_occurrence_at end,
  updated_at = scheduled_actions_now()
where s.id = %(schedule_id)s
returning exists (select from gone)
