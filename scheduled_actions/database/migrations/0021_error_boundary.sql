-- One action's defect stays its own: follow-ups that cannot be scheduled, announcements in order, stored values out of range.

-- Counts the announcements of a tick: one that arrives late, from a backend whose connection was lost, changes nothing.
alter table scheduled_action_ticks add column announcement bigint not null default 0;

-- Returns the follow-ups stored with an action as elements of schedule_actions: they belong to its team, and name it as their
-- creator unless they name another. Never raises: anything but a JSON object stays as it is and is refused when it is scheduled.
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

-- What schedule_actions does, for an action that schedules them (null: none does); waits no longer than so for keys.
create function scheduled_actions_schedule(new_actions jsonb, scheduled_by uuid, wait_ms integer)
  returns table (id uuid, deduplicated boolean)
  language plpgsql volatile
  as $$
  #variable_conflict use_column
  declare
    ids uuid[];
    left_over bigint[];
    merged boolean[];
    position bigint;
    placed record;
    unknown text;
    arguments constant text[] := array[
      'action_type', 'payload', 'scheduled_at', 'team_id', 'priority', 'max_attempts', 'retry', 'lock_group',
      'lock_group_blocks', 'dedup_key', 'dedup_window', 'dedup_mode', 'target', 'user_id', 'metadata', 'created_by',
      'condition', 'after', 'on_success', 'on_failure', 'delay'];
    callers_timeout text := current_setting('lock_timeout');
    wait_until timestamptz := clock_timestamp() + wait_ms * interval '1 millisecond';
  begin
    if jsonb_typeof(new_actions) is distinct from 'array' then
      perform scheduled_actions_refuse('new_actions: is not a JSON array');
    end if;
    select format('new_actions[%s]: %s', e.position - 1, case jsonb_typeof(e.element) when 'object'
      then format('%L is no argument of schedule_action', (select min(name) from jsonb_object_keys(e.element - arguments) name))
      else 'is not a JSON object' end)
    into unknown
    from jsonb_array_elements(new_actions) with ordinality e (element, position)
    where case jsonb_typeof(e.element) when 'object' then e.element - arguments <> '{}' else true end
    limit 1;
    if unknown is not null then
      perform scheduled_actions_refuse(unknown);
    end if;
    begin
      perform set_config('lock_timeout', wait_ms::text, true);
      with elements as materialized (
        select * from scheduled_actions_elements(new_actions) e
        where e.problem is null or scheduled_actions_refuse(format('new_actions[%s]: %s', e.position - 1, e.problem))
      ),
      inserted as (
        insert into scheduled_actions (
          id, action_type, payload, team_id, priority, scheduled_at, max_attempts, retry, lock_group, lock_group_blocks,
          dedup_key, dedup_event, dedup_open, target_type, target_id, user_id, metadata, created_by, condition, on_success,
          on_failure, scheduled_by
        )
        select
          id, action_type, payload, team_id, priority, scheduled_at, max_attempts, retry, lock_group, lock_group_blocks,
          dedup_key, dedup_event, dedup_open, target_type, target_id, user_id, metadata, created_by, condition, on_success,
          on_failure, scheduled_actions_schedule.scheduled_by
        from elements
        -- In the order of their keys, so that two callers wait for each other in one direction only.
        order by case when dedup_open then dedup_key end, position
        on conflict (dedup_key, action_type, coalesce(team_id, ''), coalesce(dedup_event, '')) where dedup_open do nothing
        returning id
      )
      select
        array_agg(e.id order by e.position), array_agg(e.position order by e.dedup_key, e.position) filter (where i.id is null)
      into ids, left_over
      from elements e left join inserted i on i.id = e.id;
      perform set_config('lock_timeout', callers_timeout, true);
    exception when lock_not_available or deadlock_detected or serialization_failure or unique_violation then
      ids := array_fill(null::uuid, array[jsonb_array_length(new_actions)]);
      left_over := array(
        select e.position from scheduled_actions_elements(new_actions) e order by e.dedup_key, e.position);
    end;
    merged := array_fill(false, array[coalesce(cardinality(ids), 0)]);
    -- What met an open key is merged one by one, in the order of the keys, too; all of them together wait no longer than
    -- one would.
    foreach position in array coalesce(left_over, '{}') loop
      select put.id, put.deduplicated into placed
      from scheduled_actions_put_element(
        new_actions -> (position - 1)::int,
        greatest(1, (extract(epoch from wait_until - clock_timestamp()) * 1000)::int),
        scheduled_actions_schedule.scheduled_by) put;
      ids[position] := placed.id;
      merged[position] := placed.deduplicated;
    end loop;
    return query select u.id, u.deduplicated from unnest(ids, merged) u (id, deduplicated);
  end
  $$;

create or replace function scheduled_actions_schedule(new_actions jsonb, scheduled_by uuid)
  returns table (id uuid, deduplicated boolean)
  language sql volatile
  as $$ select s.id, s.deduplicated from scheduled_actions_schedule(new_actions, scheduled_by, 300) s $$;

-- Schedules the follow-ups of an action and returns how many were refused. Each that cannot be scheduled is a failed action under
-- its parent; where even that cannot be stored, an entry in the parent's history says so. Raises only what passes or concerns
-- all: locks, deadlocks, a full disk, a cancelled statement. A settlement calls it for many actions: once a key has been waited
-- for in its transaction, the others hardly wait for theirs.
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

-- Returns a count that is stored in a document, at most `most`; 0 for anything but a count.
create function scheduled_actions_stored_count(stored jsonb, most integer default 2147483646) returns integer
  language sql immutable parallel safe
  as $$ select case jsonb_typeof(stored) when 'number' then greatest(0, least(floor(stored::numeric), most)) else 0 end::integer $$;

-- Returns an instant that is stored in a document; null for what is none. Not parallel safe: it begins a subtransaction.
create function scheduled_actions_stored_instant(stored text) returns timestamptz
  language plpgsql stable
  as $$
  begin
    return stored::timestamptz;
  exception when data_exception then
    return null;
  end
  $$;

-- The history keeps its first 5 and last 45 entries; snoozes (and condition checks) in a row are one counted entry.
create or replace function scheduled_actions_history_with(history jsonb, entry jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
    select case
      when entry is null then history
      when entry ->> 'outcome' in ('snoozed', 'waited') and history -> -1 ->> 'outcome' = entry ->> 'outcome'
        then (history - (-1)) || jsonb_build_array(
          entry || jsonb_build_object(
            'started_at', history -> -1 -> 'started_at',
            'count', greatest(1, scheduled_actions_stored_count(history -> -1 -> 'count')) + 1))
      when jsonb_array_length(history) >= 50 then (history - 5) || jsonb_build_array(entry)
      else history || jsonb_build_array(entry)
    end
  $$;

-- Makes waiting actions due now. One that was moved to another time since its last check is left there.
create function scheduled_actions_make_due(ids uuid[]) returns void
  language sql volatile
  as $$
    update scheduled_actions a
    set scheduled_at = scheduled_actions_now(), updated_at = scheduled_actions_now()
    where a.id = any (array(
      select b.id
      from scheduled_actions b
      where b.id = any (ids)
        and b.status = 'pending'
        and b.scheduled_at > scheduled_actions_now()
        and b.scheduled_at = scheduled_actions_stored_instant(b.waiting ->> 'next_check_at')
      order by b.id
      for update))
  $$;

-- Wakes those who wait for what has changed, at most `most` changes; answers how many were taken away.
-- Marks are set before actions are touched, as settlements of waiting ones do it: no two wait for each other. Each statement
-- here sees what had been committed before it began.
create or replace function scheduled_actions_wake_waiting(most integer) returns integer
  language plpgsql volatile
  as $$
  declare
    taken uuid[];
    waiters uuid[];
    waiter uuid;
  begin
    with gone as (
      delete from scheduled_action_wakes w
      where w.id = any (array(select k.id from scheduled_action_wakes k order by k.id limit most for update skip locked))
      returning w.topic
    )
    select array_agg(g.topic) into taken from gone g;
    if taken is null then
      return 0;
    end if;
    with found as materialized (
      select w.topic, w.action_id
      from scheduled_action_waits w
      where w.topic = any (taken)
      order by w.action_id, w.topic
      for update
    ),
    marked as (
      update scheduled_action_waits w
      set is_woken = true
      from found f
      where w.topic = f.topic and w.action_id = f.action_id and not w.is_woken
    )
    select array_agg(distinct f.action_id) into waiters from found f;
    begin
      perform scheduled_actions_make_due(waiters);
    exception
      when transaction_rollback or lock_not_available or insufficient_resources then raise;
      -- A row that refuses the change stays as it is until its next check; the others are woken.
      when others then
        foreach waiter in array waiters loop
          begin
            perform scheduled_actions_make_due(array[waiter]);
          exception
            when transaction_rollback or lock_not_available or insufficient_resources then raise;
            when others then null;
          end;
        end loop;
    end;
    return cardinality(taken);
  end
  $$;
