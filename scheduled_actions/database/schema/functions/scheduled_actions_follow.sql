-- The follow-ups of an action are scheduled; returns how many were refused. A refused one is stored as a failed action under
-- its parent; where even that is refused, an entry in the parent's history names it. Raises only errors that pass or concern
-- all: locks, deadlocks, a full disk, a cancelled statement. A settlement calls this for many actions: once a key has been
-- waited for in its transaction, the others hardly wait for theirs.
create or replace function scheduled_actions_follow(follow_ups jsonb, parent uuid) returns integer
  language plpgsql volatile
  as $$
  declare
    -- How many are tried on their own.
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
      -- One of them was refused: each is tried on its own.
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
            perform scheduled_actions_put_refused(element, problem, parent);
          exception
            when transaction_rollback or lock_not_available or insufficient_resources then raise;
            when others then lost := lost || format('%s: %s (%s)', left(element::text, 500), problem, sqlerrm);
          end;
      end;
    end loop;
    perform set_config('scheduled_actions.has_waited_for_key', 'on', true) where wait_until < clock_timestamp();
    if jsonb_array_length(follow_ups) > most then
      refused := refused + jsonb_array_length(follow_ups) - most;
      lost := lost || format('%s more than the %s that are tried one by one', jsonb_array_length(follow_ups) - most, most);
    end if;
    if lost <> '{}' then
      update scheduled_actions a
      set history = scheduled_actions_history_with(a.history, jsonb_build_object(
        'outcome', 'follow_up_refused', 'at', scheduled_actions_now(),
        'error', left('follow-ups could not be scheduled: ' || array_to_string(lost, '; '), 4096)))
      where a.id = parent;
    end if;
    return refused;
  end
  $$;
