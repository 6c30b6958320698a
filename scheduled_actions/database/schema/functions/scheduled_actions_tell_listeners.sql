-- Listening processes are notified of new work, if one is active; otherwise this costs a look at one row.
create or replace function scheduled_actions_tell_listeners() returns trigger
  language plpgsql
  as $$
  begin
    if exists (
      select
      from scheduled_action_settings s
      where s.name = 'watch'
        and s.value ->> 0 like 'listen:%'
        and s.updated_at > scheduled_actions_now() - interval '10 seconds'
    ) then
      perform pg_notify('scheduled_actions', '');
    end if;
    return null;
  end
  $$;
