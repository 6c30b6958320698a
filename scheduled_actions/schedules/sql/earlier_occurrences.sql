-- Returns for each of these schedules, whose occurrences were just claimed: when another occurrence began to wait for its
-- condition (only with the overlap policy `skip`), and the previous occurrence, if it is required and has not completed.
-- Few schedules need this. As a part of `take_occurrences.sql`, it would more than double the time of planning it.
select
  s.id,
  case when s.overlap = 'skip' and s.condition ? 'wait' then (
    select date_part('epoch', min(scheduled_actions_stored_instant(a.waiting ->> 'since')))
    from scheduled_actions a
    where a.schedule_id = s.id
      and a.waiting is not null
      and a.status in ('pending', 'processing')
      and a.attempts = 0
      and a.id <> s.next_action_id
  ) end,
  p.id, p.status, date_part('epoch', p.occurrence_at), date_part('epoch', p.updated_at)
from scheduled_action_schedules s
left join lateral (
  -- include: schedules/previous_occurrence
) p on true
where s.id = any (%(ids)s::uuid[])
