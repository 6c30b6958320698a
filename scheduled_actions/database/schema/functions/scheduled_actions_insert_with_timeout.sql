-- The action is inserted or merged. If another open transaction holds its key, this one waits at most `wait_ms`, then inserts
-- without an open key. It never deadlocks, and never fails the caller's transaction because of a key.
-- The functions are called in assignments, which plpgsql evaluates without the executor: this takes a fifth of the time.
create or replace function scheduled_actions_insert_with_timeout(
  item scheduled_actions, dedup_window double precision, dedup_mode text, wait_ms integer default 300,
  out id uuid, out deduplicated boolean
)
  language plpgsql volatile
  as $$
  declare
    callers_timeout text := current_setting('lock_timeout');
    placed record;
    changed text;
  begin
    if item.dedup_open then
      begin
        changed := set_config('lock_timeout', wait_ms::text, true);
        placed := scheduled_actions_insert(item, dedup_window, dedup_mode);
        changed := set_config('lock_timeout', callers_timeout, true);
        id := placed.id;
        deduplicated := placed.deduplicated;
        return;
      exception when lock_not_available or deadlock_detected or serialization_failure or unique_violation then
        item.dedup_open := false;
      end;
    end if;
    placed := scheduled_actions_insert(item, 0, 'latest');
    id := placed.id;
    deduplicated := placed.deduplicated;
  end
  $$;
