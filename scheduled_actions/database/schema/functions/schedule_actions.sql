-- The actions are stored, all or none. Each element has arguments of schedule_action by name; `delay` (seconds from now) can
-- replace `scheduled_at`. Returns a row for each element, in their order, as schedule_action does.
create or replace function schedule_actions(new_actions jsonb)
  returns table (id uuid, deduplicated boolean)
  language sql volatile
  as $$ select s.id, s.deduplicated from scheduled_actions_schedule(new_actions, null) s $$;
