-- One action's defect stays its own: follow-ups that cannot be scheduled, announcements in order, stored values out of range.

-- Counts the announcements of a tick: one that arrives late, from a backend whose connection was lost, changes nothing.
alter table scheduled_action_ticks add column announcement bigint not null default 0;

-- Returns the follow-ups stored with an action as elements of schedule_actions: they belong to its team, and name it as their
-- creator unless they name another. Never raises: what is no JSON object stays as it is and is refused when it is scheduled.
create or replace function scheduled_actions_following(follow_ups jsonb, id uuid, team_id text) returns jsonb
  language sql stable parallel safe
  as $$
    select coalesce(
      jsonb_agg(case jsonb_typeof(f.one)
        when 'object' then jsonb_build_object('created_by', 'action:' || id) || f.one
          || case when team_id is null then '{}' else jsonb_build_object('team_id', team_id) end
        else f.one
      end),
      '[]')
    from jsonb_array_elements(case jsonb_typeof(follow_ups) when 'array' then follow_ups else jsonb_build_array(follow_ups) end)
      f (one)
  $$;

-- Inserts a follow-up that was refused as a failed action, so that it needs attention and can be retried. What could not be
-- read of it is left out; what it waits for is kept, so that a retry does not run it too early. Its own on_failure follows.
create function scheduled_actions_put_refused(element jsonb, problem text, parent uuid) returns void
  language plpgsql volatile
  as $$
  declare
    new_id constant uuid := scheduled_actions_uuid7();
    reason constant text := left('it could not be scheduled: ' || problem, 4096);
    team constant text := element ->> 'team_id';
  begin
    insert into scheduled_actions (
      id, action_type, status, payload, team_id, scheduled_at, completed_at, error_message, history, retry, lock_group,
      lock_group_blocks, target_type, target_id, user_id, metadata, created_by, condition, on_success, on_failure, scheduled_by
    )
    values (
      new_id, element ->> 'action_type', 'failed', coalesce(element -> 'payload', '{}'), team, scheduled_actions_now(),
      scheduled_actions_now(), reason,
      jsonb_build_array(jsonb_build_object('outcome', 'refused', 'at', scheduled_actions_now(), 'error', reason)),
      nullif(element -> 'retry', 'null'), element ->> 'lock_group', coalesce(element -> 'lock_group_blocks' = 'true', false),
      element -> 'target' ->> 'type', element -> 'target' ->> 'id', element ->> 'user_id', nullif(element -> 'metadata', 'null'),
      element ->> 'created_by',
      scheduled_actions_condition(nullif(element -> 'condition', 'null'), nullif(element -> 'after', 'null')),
      scheduled_actions_follow_ups(nullif(element -> 'on_success', 'null')),
      scheduled_actions_follow_ups(nullif(element -> 'on_failure', 'null')), parent
    );
    if jsonb_typeof(element -> 'on_failure') in ('object', 'array') then
      perform scheduled_actions_follow(scheduled_actions_following(element -> 'on_failure', new_id, team), new_id);
    end if;
  end
  $$;

-- Schedules the follow-ups of an action and returns how many were refused. Each that cannot be scheduled is a failed action under
-- its parent; where even that cannot be stored, an entry in the parent's history says so. Raises only what passes or concerns
-- all: locks, deadlocks, a full disk, a cancelled statement.
create function scheduled_actions_follow(follow_ups jsonb, parent uuid) returns integer
  language plpgsql volatile
  as $$
  declare
    -- How many are tried on their own.
    most constant integer := 10000;
    element jsonb;
    problem text;
    refused integer := 0;
    lost text[] := '{}';
  begin
    begin
      perform scheduled_actions_schedule(follow_ups, parent);
      return 0;
    exception
      when transaction_rollback or lock_not_available or insufficient_resources then raise;
      -- One of them was refused: each is tried on its own.
      when others then null;
    end;
    for element in select e.one from jsonb_array_elements(follow_ups) e (one) limit most loop
      begin
        perform scheduled_actions_schedule(jsonb_build_array(element), parent);
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
