-- Answers what scheduled_actions_look does, and whether a topic has changed that actions may wait for.
create or replace function scheduled_actions_look_around(
  tick_id uuid,
  may_be_idle boolean,
  action_types text[],
  retention_days integer,
  retention_failed_days integer,
  caller text,
  counts jsonb,
  budget jsonb,
  out may_have_due boolean,
  out has_expired boolean,
  out has_lost_ticks boolean,
  out has_old_holds boolean,
  out has_unhandled boolean,
  out has_prunable boolean,
  out has_wakes boolean,
  out is_noted boolean
)
  language plpgsql volatile
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
  as $$
  begin
    has_wakes := (select w.id from scheduled_action_wakes w order by w.id limit 1) is not null;
    select l.may_have_due, l.has_expired, l.has_lost_ticks, l.has_old_holds, l.has_unhandled, l.has_prunable, l.is_noted
    into may_have_due, has_expired, has_lost_ticks, has_old_holds, has_unhandled, has_prunable, is_noted
    from scheduled_actions_look(
      tick_id, may_be_idle and not has_wakes, action_types, retention_days, retention_failed_days, caller, counts, budget) l;
  end
  $$;
