-- The action is inserted or merged. If another open transaction holds its key, this one waits at most `wait_ms`, then inserts
-- without an open key. It never deadlocks, and never fails the caller's transaction because of a key.
create or replace function scheduled_actions_insert_with_timeout(
  item scheduled_actions, dedup_window double precision, dedup_mode text, wait_ms integer default 300
)
  returns table (id uuid, deduplicated boolean)
  language plpgsql volatile
  as $$
  declare
    callers_timeout text := current_setting('lock_timeout');
  begin
    if item.dedup_open then
      begin
        perform set_config('lock_timeout', wait_ms::text, true);
        return query select put.id, put.deduplicated from scheduled_actions_insert(item, dedup_window, dedup_mode) put;
        perform set_config('lock_timeout', callers_timeout, true);
        return;
      exception when lock_not_available or deadlock_detected or serialization_failure or unique_violation then
        item.dedup_open := false;
      end;
    end if;
    return query select put.id, put.deduplicated from scheduled_actions_insert(item, 0, 'latest') put;
  end
  $$;
