-- The actions that wait for this deadline are woken when its status changes.
create or replace function scheduled_actions_wake_after_deadline() returns trigger
  language plpgsql
  as $$
  begin
    insert into scheduled_action_wakes (topic) values (new.id);
    return null;
  end
  $$;
