-- Returns the dedup window of an action type in seconds: that of the type, else that of the project, else five seconds.
create or replace function scheduled_actions_dedup_window(action_type text) returns double precision
  language plpgsql stable parallel safe
  as $$
  begin
    return coalesce(
      (select coalesce(s.value -> 'by_type' ->> scheduled_actions_dedup_window.action_type, s.value ->> 'default')
       from scheduled_action_settings s where s.name = 'dedup_window')::double precision,
      5);
  end
  $$;
