-- Which action scheduled which: handlers with their context, and what follows the end of another.

alter table scheduled_actions add column scheduled_by uuid;
-- Most actions are scheduled by none, and cost this index nothing.
create index scheduled_actions_scheduled_by on scheduled_actions (scheduled_by, id) where scheduled_by is not null;

-- Inserts the action, or merges it into one that still waits under the same open key.
create or replace function scheduled_actions_put(item scheduled_actions, dedup_window double precision, dedup_mode text)
  returns table (id uuid, deduplicated boolean)
  language plpgsql volatile
  as $$
  #variable_conflict use_column
  declare
    since timestamptz := scheduled_actions_now() - make_interval(secs => scheduled_actions_put.dedup_window);
  begin
    for attempt in 1 .. 5 loop
      return query
        insert into scheduled_actions as a (
          id, action_type, payload, team_id, priority, scheduled_at, max_attempts, retry, lock_group, lock_group_blocks,
          dedup_key, dedup_event, dedup_open, target_type, target_id, user_id, metadata, created_by,
          condition, on_success, on_failure, scheduled_by
        )
        values (
          item.id, item.action_type, item.payload, item.team_id, item.priority, item.scheduled_at, item.max_attempts,
          item.retry, item.lock_group, item.lock_group_blocks, item.dedup_key, item.dedup_event, item.dedup_open,
          item.target_type, item.target_id, item.user_id, item.metadata, item.created_by, item.condition, item.on_success,
          item.on_failure, item.scheduled_by
        )
        on conflict (dedup_key, action_type, coalesce(team_id, ''), coalesce(dedup_event, '')) where dedup_open
        do update set
          payload = case scheduled_actions_put.dedup_mode
            when 'latest' then excluded.payload
            when 'first' then a.payload
            when 'append' then
              case jsonb_typeof(a.payload) when 'array' then a.payload else jsonb_build_array(a.payload) end || excluded.payload
          end,
          condition = case scheduled_actions_put.dedup_mode when 'latest' then excluded.condition else a.condition end,
          on_success = case scheduled_actions_put.dedup_mode when 'latest' then excluded.on_success else a.on_success end,
          on_failure = case scheduled_actions_put.dedup_mode when 'latest' then excluded.on_failure else a.on_failure end,
          updated_at = scheduled_actions_now()
        -- Closed, expired, or full: then it is not the one to merge into, and nothing is changed here.
        where a.status = 'pending' and a.created_at > since
          and (scheduled_actions_put.dedup_mode <> 'append'
               or octet_length(a.payload::text) + octet_length(excluded.payload::text) <= 262144)
        returning a.id, a.id <> item.id;
      if found then
        return;
      end if;
      update scheduled_actions a
      set dedup_open = false
      where a.dedup_open
        and a.dedup_key = item.dedup_key
        and a.action_type = item.action_type
        and coalesce(a.team_id, '') = coalesce(item.team_id, '')
        and coalesce(a.dedup_event, '') = coalesce(item.dedup_event, '');
    end loop;
    -- Somebody opened the key again each time it was closed: an event is never dropped, so it goes in without one.
    item.dedup_open := false;
    return query select put.id, put.deduplicated from scheduled_actions_put(item, 0, 'latest') put;
  end
  $$;

-- One element of schedule_actions, made what schedule_action makes of its arguments.
create function scheduled_actions_put_element(element jsonb, wait_ms integer, scheduled_by uuid)
  returns table (id uuid, deduplicated boolean)
  language sql volatile
  as $$
    select put.id, put.deduplicated
    from scheduled_actions_elements(jsonb_build_array(element)) e
    cross join lateral scheduled_actions_put_patiently(
      jsonb_populate_record(
        null::scheduled_actions, to_jsonb(e) || jsonb_build_object('scheduled_by', scheduled_by)),
      e.dedup_seconds, e.dedup_mode, wait_ms) put
  $$;

-- What schedule_actions does, for an action that schedules them (null: none does).
create function scheduled_actions_schedule(new_actions jsonb, scheduled_by uuid)
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
    wait_until timestamptz := clock_timestamp() + interval '300 milliseconds';
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
      perform set_config('lock_timeout', '300', true);
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

-- Schedules many at once: each element has the names of schedule_action's arguments, or `delay` (seconds from now) in
-- place of `scheduled_at`. Answers in their order.
create or replace function schedule_actions(new_actions jsonb)
  returns table (id uuid, deduplicated boolean)
  language sql volatile
  as $$ select s.id, s.deduplicated from scheduled_actions_schedule(new_actions, null) s $$;
