-- The actions are stored, all or none: each element has the names of schedule_action's arguments, or `delay` (seconds from
-- now) in place of `scheduled_at`. Answers a row for each, in their order, as schedule_action does.
create or replace function schedule_actions(new_actions jsonb)
  returns table (id uuid, deduplicated boolean)
  language sql volatile
  as $$ select s.id, s.deduplicated from scheduled_actions_schedule(new_actions, null) s $$;
