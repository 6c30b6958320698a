-- Listeners hear of new actions at once, where one keeps the watch; nobody else pays more than a look at one row.
create function scheduled_actions_tell_listeners() returns trigger
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

create trigger scheduled_actions_tell_listeners
  after insert on scheduled_actions
  for each statement execute function scheduled_actions_tell_listeners();
