-- Returns, for the schedule whose planned occurrence this action is, since when another occurrence is running, since
-- when one waits for its condition, whether one has no handler, and the previous occurrence if it is required and has not
-- completed. No row if the action is not a planned occurrence.
select
  (
    select min(a.updated_at)
    from scheduled_actions a
    where a.status = 'processing'
      and a.lease_expires_at > '-infinity'
      and a.schedule_id = s.id
      and a.id <> %(action_id)s
  ),
  (
    select min(scheduled_actions_stored_instant(a.waiting ->> 'since'))
    from scheduled_actions a
    where a.schedule_id = s.id
      and a.waiting is not null
      and a.status in ('pending', 'processing')
      and a.attempts = 0
      and a.id <> %(action_id)s
  ),
  exists (
    select
    from scheduled_actions a
    where a.status = 'no_action' and a.action_type = s.action_type and a.schedule_id = s.id
  ),
  p.id, p.status, p.occurrence_at, p.updated_at
from scheduled_action_schedules s
left join lateral (
  -- include: schedules/previous_occurrence
) p on true
where s.id = %(schedule_id)s and s.next_action_id = %(action_id)s
