-- Returns an instant that is stored in a document; null for anything else. Not parallel safe: it begins a subtransaction.
create or replace function scheduled_actions_stored_instant(stored text) returns timestamptz
  language plpgsql stable
  as $$
  begin
    return stored::timestamptz;
  exception when data_exception then
    return null;
  end
  $$;
