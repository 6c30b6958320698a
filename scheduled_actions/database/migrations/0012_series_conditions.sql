-- What every occurrence of a schedule waits for, and what follows its end.

alter table scheduled_action_schedules
  add column condition jsonb,
  add column on_success jsonb,
  add column on_failure jsonb;

-- Occurrences that wait for their condition: one that comes due meanwhile may have to be left out.
create index scheduled_actions_waiting_occurrence on scheduled_actions (schedule_id)
  where schedule_id is not null and waiting is not null and status in ('pending', 'processing');
