-- Returns an instant stored in a document; null if the value is not an instant. Not parallel safe, because it starts a
-- subtransaction.
create or replace function scheduled_actions_stored_instant(stored text) returns timestamptz
  language plpgsql stable
  as $$
  begin
    return stored::timestamptz;
  exception when data_exception then
    return null;
  end
  $$;
