-- An active listener and the workers of executors are notified of new work; without any, this reads a single row.
create or replace function scheduled_actions_notify_listeners() returns trigger
  language plpgsql
  as $$
  begin
    if exists (
      select
      from scheduled_action_settings s
      where s.name = 'linger_lease'
        and s.value ->> 0 like 'listen:%'
        and s.updated_at > scheduled_actions_now() - interval '10 seconds'
    ) or exists (
      select
      from scheduled_action_workers w
      where w.finished_at is null and w.seen_at > scheduled_actions_now() - interval '2 minutes'
    ) then
      perform pg_notify('scheduled_actions', '');
    end if;
    return null;
  end
  $$;
