-- The follow-ups of an action are scheduled. Returns the number of refused ones. A refused follow-up is stored as a
-- failed action under its parent; if that is refused, too, it has an entry in the parent's history.
-- Raises only transient errors and errors that concern all actions: locks, deadlocks, a full disk, a cancelled
-- statement. A settlement calls this for many actions: after the first wait for a key in its transaction, further waits
-- are short.
create or replace function scheduled_actions_schedule_follow_ups(follow_ups jsonb, parent uuid) returns integer
  language plpgsql volatile
  as $$
  declare
    -- Maximum number of follow-ups that are scheduled one by one.
    most constant integer := 10000;
    element jsonb;
    problem text;
    refused integer := 0;
    lost text[] := '{}';
    has_waited constant boolean := current_setting('scheduled_actions.has_waited_for_key', true) = 'on';
    wait_ms constant integer := case when has_waited then 1 else 300 end;
    wait_until constant timestamptz := clock_timestamp() + interval '300 milliseconds';
  begin
    begin
      perform scheduled_actions_schedule(follow_ups, parent, wait_ms);
      perform set_config('scheduled_actions.has_waited_for_key', 'on', true) where wait_until < clock_timestamp();
      return 0;
    exception
      when transaction_rollback or lock_not_available or insufficient_resources then raise;
      -- One of them was refused, so they are scheduled one by one.
      when others then null;
    end;
    for element in select e.one from jsonb_array_elements(follow_ups) e (one) limit most loop
      begin
        perform scheduled_actions_schedule(
          jsonb_build_array(element), parent, case when wait_until < clock_timestamp() then 1 else wait_ms end);
      exception
        when transaction_rollback or lock_not_available or insufficient_resources then raise;
        when others then
          refused := refused + 1;
          problem := regexp_replace(sqlerrm, '^new_actions\[0\]: ', '');
          begin
            perform scheduled_actions_insert_refused(element, problem, parent);
          exception
            when transaction_rollback or lock_not_available or insufficient_resources then raise;
            when others then lost := lost || format('%s: %s (%s)', left(element::text, 500), problem, sqlerrm);
          end;
      end;
    end loop;
    perform set_config('scheduled_actions.has_waited_for_key', 'on', true) where wait_until < clock_timestamp();
    if jsonb_array_length(follow_ups) > most then
      refused := refused + jsonb_array_length(follow_ups) - most;
      lost := lost || format('%s follow-ups after the first %s were not tried', jsonb_array_length(follow_ups) - most, most);
    end if;
    if lost <> '{}' then
      update scheduled_actions a
      set history = scheduled_actions_append_history(a.history, jsonb_build_object(
        'outcome', 'follow_up_refused', 'at', scheduled_actions_now(),
        'error', left('follow-ups could not be scheduled: ' || array_to_string(lost, '; '), 4096)))
      where a.id = parent;
    end if;
    return refused;
  end
  $$;
