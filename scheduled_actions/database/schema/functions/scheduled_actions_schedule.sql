-- The actions are stored as by schedule_actions, on behalf of an action (null: none). Waits at most `wait_ms` in
-- total for dedup keys of other transactions.
create or replace function scheduled_actions_schedule(new_actions jsonb, scheduled_by uuid, wait_ms integer default 300)
  returns table (id uuid, deduplicated boolean)
  language plpgsql volatile
  as $$
  #variable_conflict use_column
  declare
    first_id constant text := scheduled_actions_uuid7()::text;
    first_number constant bigint := ('x' || right(first_id, 8))::bit(32)::bigint;
    ids uuid[];
    inserted bigint;
    left_over bigint[] := '{}';
    merged boolean[];
    position bigint;
    may_conflict constant boolean :=
      jsonb_path_exists(new_actions, '$[*] ? (exists (@.dedup_key) || exists (@.payload.entity_id))');
    placed record;
    unknown text;
    arguments constant text[] := array[
      -- include: actions/argument_names,
      'team_id'];
    callers_timeout text := current_setting('lock_timeout');
    wait_until timestamptz := clock_timestamp() + wait_ms * interval '1 millisecond';
  begin
    if jsonb_typeof(new_actions) is distinct from 'array' then
      perform scheduled_actions_refuse('new_actions: must be a JSON array');
    end if;
    select format('new_actions[%s]: %s', e.position - 1, case jsonb_typeof(e.element) when 'object'
      then format(
        '%L is not an argument of schedule_action; the arguments are %s',
        (select min(name) from jsonb_object_keys(e.element - arguments) name), array_to_string(arguments, ', '))
      else 'must be a JSON object' end)
    into unknown
    from jsonb_array_elements(new_actions) with ordinality e (element, position)
    where case jsonb_typeof(e.element) when 'object' then e.element - arguments <> '{}' else true end
    limit 1;
    if unknown is not null then
      perform scheduled_actions_refuse(unknown);
    end if;
    -- The last 32 bits count up from those of one new id: random ids take several times as long.
    ids := array(
      select (left(first_id, 28) || lpad(to_hex((first_number + n) & 4294967295), 8, '0'))::uuid
      from generate_series(0, jsonb_array_length(new_actions) - 1) n);
    -- Without keys, no action can be merged. `on conflict` would write one more WAL record per row.
    if not may_conflict then
      insert into scheduled_actions (
        -- include: actions/new_action_columns,
        scheduled_by
      )
      select
        -- include: actions/new_action_columns,
        scheduled_actions_schedule.scheduled_by
      from (select ids[e.position::int] as id, e.* from scheduled_actions_elements(new_actions) e) e
      where e.problem is null or scheduled_actions_refuse(format('new_actions[%s]: %s', e.position - 1, e.problem));
      return query select u.id, false from unnest(ids) u (id);
      return;
    end if;
    begin
      perform set_config('lock_timeout', wait_ms::text, true);
      insert into scheduled_actions (
        -- include: actions/new_action_columns,
        scheduled_by
      )
      select
        -- include: actions/new_action_columns,
        scheduled_actions_schedule.scheduled_by
      from (select ids[e.position::int] as id, e.* from scheduled_actions_elements(new_actions) e) e
      where e.problem is null or scheduled_actions_refuse(format('new_actions[%s]: %s', e.position - 1, e.problem))
      -- In the order of their keys to prevent deadlocks.
      order by case when e.dedup_open then e.dedup_key end, e.position
      on conflict (dedup_key, action_type, coalesce(team_id, ''), coalesce(dedup_event, '')) where dedup_open do nothing;
      get diagnostics inserted = row_count;
      perform set_config('lock_timeout', callers_timeout, true);
    exception when lock_not_available or deadlock_detected or serialization_failure or unique_violation then
      inserted := 0;
    end;
    if inserted < cardinality(ids) then
      left_over := array(
        select e.position
        from scheduled_actions_elements(new_actions) e
        where not exists (select from scheduled_actions a where a.id = ids[e.position::int])
        order by e.dedup_key, e.position);
    end if;
    merged := array_fill(false, array[cardinality(ids)]);
    -- Actions whose key is open are merged one by one, also in the order of their keys; `wait_ms` is their total wait.
    foreach position in array left_over loop
      select put.id, put.deduplicated into placed
      from scheduled_actions_insert_element(
        new_actions -> (position - 1)::int,
        greatest(1, (extract(epoch from wait_until - clock_timestamp()) * 1000)::int),
        scheduled_actions_schedule.scheduled_by) put;
      ids[position] := placed.id;
      merged[position] := placed.deduplicated;
    end loop;
    return query select u.id, u.deduplicated from unnest(ids, merged) u (id, deduplicated);
  end
  $$;
