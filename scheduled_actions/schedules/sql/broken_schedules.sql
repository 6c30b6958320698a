-- Returns and locks the active schedules without a planned occurrence: their reference is null, or points to an action
-- that is missing, has ended or, for a fixed schedule, is running. Skips schedules locked by another transaction.
select
  -- include: schedules/schedule_columns
from scheduled_action_schedules s
where s.status = 'active'
  -- A schedule that SQL has requested is planned when it is applied for the first time.
  and (s.requested is null or s.definition <> '{}')
  and (%(schedule_id)s::uuid is null or s.id = %(schedule_id)s)
  and (%(after)s::uuid is null or s.id > %(after)s)
  and not exists (
    select
    from scheduled_actions a
    where a.id = s.next_action_id
      and (a.status in ('pending', 'no_action') or a.status = 'processing' and s.recurrence_type = 'rolling')
  )
order by s.id
limit %(limit)s
for update of s skip locked
