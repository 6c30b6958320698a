-- The actions that wait for the end of this one are woken, whatever its final status, and when it is retried.
create or replace function scheduled_actions_wake_after() returns trigger
  language plpgsql
  as $$
  begin
    insert into scheduled_action_wakes (topic) values (new.id);
    return null;
  end
  $$;
