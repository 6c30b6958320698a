-- The tables of actions, holds, ticks and settings, with their indexes and the functions that schedule.
-- Names are unqualified: the role's search path decides the schema.

-- The one clock of all statements. Tests replace this function to move it; nothing else asks for the time.
create function scheduled_actions_now() returns timestamptz
  language sql stable parallel safe
  as 'select statement_timestamp()';

-- A UUID of version 7 (RFC 9562): milliseconds, their fraction in 12 bits, 62 random bits, so that ids made one after
-- the other ascend. PostgreSQL 18 brings the same.
do $do$
begin
  if current_setting('server_version_num')::int >= 180000 then
    create function scheduled_actions_uuid7() returns uuid
      language sql volatile parallel safe
      as 'select uuidv7()';
  else
    create function scheduled_actions_uuid7() returns uuid
      language plpgsql volatile parallel safe
      as $$
      declare
        ticks bigint := floor(extract(epoch from clock_timestamp()) * 4096000);
      begin
        return encode(
          overlay(uuid_send(gen_random_uuid()) placing int8send((ticks >> 12 << 16) | 28672 | (ticks & 4095)) from 1 for 8),
          'hex')::uuid;
      end
      $$;
  end if;
end
$do$;

create table scheduled_actions (
  id uuid primary key default scheduled_actions_uuid7(),
  action_type text not null,
  status text not null default 'pending',
  payload jsonb not null default '{}',
  team_id text,
  priority smallint not null default 0,
  scheduled_at timestamptz not null,
  occurrence_at timestamptz,
  started_at timestamptz,
  completed_at timestamptz,
  error_message text,
  attempts integer not null default 0,
  max_attempts integer,
  retry jsonb,
  result jsonb,
  state jsonb,
  metadata jsonb,
  history jsonb not null default '[]',
  target_type text,
  target_id text,
  user_id text,
  created_by text,
  schedule_id uuid,
  deadline_id uuid,
  dedup_key text,
  dedup_event text,
  dedup_open boolean not null default false,
  lock_group text,
  lock_group_blocks boolean not null default false,
  condition jsonb,
  cancel_requested_at timestamptz,
  claim_token uuid,
  lease_expires_at timestamptz,
  created_at timestamptz not null default scheduled_actions_now(),
  updated_at timestamptz not null default scheduled_actions_now(),
  constraint scheduled_actions_status_is_known check (
    status in ('pending', 'processing', 'completed', 'failed', 'cancelled', 'skipped', 'no_action')
  ),
  constraint scheduled_actions_claim_is_whole check (
    (status = 'processing') = (claim_token is not null) and (claim_token is null) = (lease_expires_at is null)
  ),
  constraint scheduled_actions_history_is_a_list check (jsonb_typeof(history) = 'array')
)
with (
  -- Every action is updated twice and deleted once: vacuum small and often, by rows rather than by a share of them.
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);

-- Claims walk these in order; the id makes the order total, so that a keyset never sees a row twice.
create index scheduled_actions_claim_free on scheduled_actions (priority, scheduled_at, id)
  where status = 'pending' and lock_group is null;
create index scheduled_actions_claim_grouped on scheduled_actions (priority, scheduled_at, id)
  where status = 'pending' and lock_group is not null;
-- The oldest due member of one group, whatever part of the walk met the group.
create index scheduled_actions_lock_group on scheduled_actions (lock_group, coalesce(team_id, ''), priority, scheduled_at, id)
  where status = 'pending' and lock_group is not null;
create index scheduled_actions_lease on scheduled_actions (lease_expires_at)
  where status = 'processing';
create unique index scheduled_actions_dedup
  on scheduled_actions (dedup_key, action_type, coalesce(team_id, ''), coalesce(dedup_event, ''))
  where dedup_open;
create unique index scheduled_actions_occurrence on scheduled_actions (schedule_id, occurrence_at)
  where schedule_id is not null;
create index scheduled_actions_prune on scheduled_actions (status, completed_at)
  where completed_at is not null;
create index scheduled_actions_no_action on scheduled_actions (action_type)
  where status = 'no_action';

-- Who runs in a lock group. `busy_until`: the holder's attempt timed out, but its handler has not returned yet.
create table scheduled_action_holds (
  team_id text not null,
  lock_group text not null,
  action_id uuid not null,
  acquired_at timestamptz not null default scheduled_actions_now(),
  busy_until timestamptz,
  primary key (team_id, lock_group)
);
create index scheduled_action_holds_action on scheduled_action_holds (action_id);

-- One row a tick. `running` names the actions whose handlers have been started and not yet settled: what a crash charges.
create table scheduled_action_ticks (
  id uuid primary key,
  started_at timestamptz not null,
  finished_at timestamptz,
  lease_expires_at timestamptz not null,
  running uuid[] not null default '{}',
  caller text,
  outcome text,
  counts jsonb,
  budget jsonb
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
create index scheduled_action_ticks_started on scheduled_action_ticks (started_at);
create index scheduled_action_ticks_open on scheduled_action_ticks (lease_expires_at) where finished_at is null;

-- What the functions below need to know of the project's settings.
create table scheduled_action_settings (
  name text primary key,
  value jsonb not null,
  updated_at timestamptz not null default scheduled_actions_now()
);

-- The history keeps its first 5 and last 45 entries; snoozes (and condition checks) in a row are one counted entry.
create function scheduled_actions_history_with(history jsonb, entry jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
    select case
      when entry is null then history
      when entry ->> 'outcome' in ('snoozed', 'waited') and history -> -1 ->> 'outcome' = entry ->> 'outcome'
        then (history - (-1)) || jsonb_build_array(
          entry || jsonb_build_object(
            'started_at', history -> -1 -> 'started_at',
            'count', coalesce((history -> -1 ->> 'count')::int, 1) + 1))
      when jsonb_array_length(history) >= 50 then (history - 5) || jsonb_build_array(entry)
      else history || jsonb_build_array(entry)
    end
  $$;

-- The key of a payload that names an entity: the same event about the same thing, at the same time.
create function scheduled_actions_entity_key(payload jsonb, scheduled_at timestamptz) returns text
  language plpgsql stable parallel safe
  as $$
  declare
    key text := 'entity:' || jsonb_build_array(
      payload -> 'entity_type', payload -> 'entity_id', payload -> 'event', payload -> 'endpoint',
      case when scheduled_at > scheduled_actions_now() then extract(epoch from scheduled_at) end)::text;
  begin
    return case when octet_length(key) <= 400 then key else 'entity-md5:' || md5(key) end;
  end
  $$;

create function scheduled_actions_derived_key(payload jsonb, scheduled_at timestamptz) returns text
  language sql stable parallel safe
  as $$
    select case when jsonb_typeof(payload -> 'entity_id') <> 'null'
      then scheduled_actions_entity_key(payload, scheduled_at) end
  $$;

-- The dedup window of an action type in seconds: its own, else the project's, else five seconds.
create function scheduled_actions_dedup_window(action_type text) returns double precision
  language plpgsql stable parallel safe
  as $$
  begin
    return coalesce(
      (select coalesce(s.value -> 'by_type' ->> scheduled_actions_dedup_window.action_type, s.value ->> 'default')
       from scheduled_action_settings s where s.name = 'dedup_window')::double precision,
      5);
  end
  $$;

-- What keeps the arguments from being an action, naming the value and what would be right; null when nothing does.
create function scheduled_actions_problem(
  action_type text, payload jsonb, scheduled_at timestamptz, team_id text, priority integer, max_attempts integer,
  retry jsonb, lock_group text, dedup_key text, dedup_window double precision, dedup_mode text, later_feature boolean
) returns text
  language sql stable parallel safe
  as $$
    select case
      -- The length is judged apart: a counted repetition makes the pattern thirty times as slow.
      when action_type is null or length(action_type) > 200 or action_type !~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'
        then format('action_type: %L is not letters, digits and . _ : - only, at most 200', left(action_type, 80))
      when jsonb_typeof(payload) is distinct from 'object'
        then format('payload: a JSON %s is not a JSON object', coalesce(jsonb_typeof(payload), 'null'))
      -- The binary form is never much smaller than half of the text: only a large one is turned into text to be measured.
      when pg_column_size(payload) > 65536 and octet_length(payload::text) > 262144
        then format('payload is %s bytes; at most 262144 are taken', octet_length(payload::text))
      when not isfinite(scheduled_at) then format('scheduled_at: %s is not an instant', scheduled_at)
      when team_id is not null and length(team_id) not between 1 and 255
        then 'team_id: is not between 1 and 255 characters'
      when priority is null or priority not between -32768 and 32767
        then format('priority: %s is not between -32768 and 32767', priority)
      when max_attempts not between 1 and 1000 then format('max_attempts: %s is not between 1 and 1000', max_attempts)
      when jsonb_typeof(retry) not in ('object', 'array') then 'retry: is not {"kind": …} or a list of seconds'
      when lock_group is not null and length(lock_group) not between 1 and 255
        then 'lock_group: is not between 1 and 255 characters'
      when dedup_key is not null and length(dedup_key) not between 1 and 512
        then 'dedup_key: is not between 1 and 512 characters'
      when dedup_window not between 0 and 31622400
        then format('dedup_window: %s is not a number of seconds between 0 and a year', dedup_window)
      when dedup_mode is null or dedup_mode not in ('latest', 'first', 'append')
        then format('dedup_mode: %L is not latest, first or append', dedup_mode)
      when later_feature
        then 'condition, after, on_success and on_failure are not available in this version: leave them out'
    end
  $$;

create function scheduled_actions_refuse(problem text) returns boolean
  language plpgsql volatile
  as $$
  begin
    raise exception '%', problem using errcode = 'invalid_parameter_value';
  end
  $$;

-- Inserts the action, or merges it into one that still waits under the same open key.
create function scheduled_actions_put(item scheduled_actions, dedup_window double precision, dedup_mode text)
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
          dedup_key, dedup_event, dedup_open, target_type, target_id, user_id, metadata, created_by
        )
        values (
          item.id, item.action_type, item.payload, item.team_id, item.priority, item.scheduled_at, item.max_attempts,
          item.retry, item.lock_group, item.lock_group_blocks, item.dedup_key, item.dedup_event, item.dedup_open,
          item.target_type, item.target_id, item.user_id, item.metadata, item.created_by
        )
        on conflict (dedup_key, action_type, coalesce(team_id, ''), coalesce(dedup_event, '')) where dedup_open
        do update set
          payload = case scheduled_actions_put.dedup_mode
            when 'latest' then excluded.payload
            when 'first' then a.payload
            when 'append' then
              case jsonb_typeof(a.payload) when 'array' then a.payload else jsonb_build_array(a.payload) end || excluded.payload
          end,
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

-- Inserts or merges; a key that another open transaction holds is waited for `wait_ms`, then done without.
-- Never deadlocks, never fails the caller's transaction for the sake of a key.
create function scheduled_actions_put_patiently(
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
        return query select put.id, put.deduplicated from scheduled_actions_put(item, dedup_window, dedup_mode) put;
        perform set_config('lock_timeout', callers_timeout, true);
        return;
      exception when lock_not_available or deadlock_detected or serialization_failure or unique_violation then
        item.dedup_open := false;
      end;
    end if;
    return query select put.id, put.deduplicated from scheduled_actions_put(item, 0, 'latest') put;
  end
  $$;

create function schedule_action(
  action_type text,
  payload jsonb default '{}',
  scheduled_at timestamptz default null,
  team_id text default null,
  priority integer default 0,
  max_attempts integer default null,
  retry jsonb default null,
  lock_group text default null,
  lock_group_blocks boolean default false,
  dedup_key text default null,
  dedup_window double precision default null,
  dedup_mode text default 'latest',
  target jsonb default null,
  user_id text default null,
  metadata jsonb default null,
  created_by text default null,
  condition jsonb default null,
  after uuid[] default null,
  on_success jsonb default null,
  on_failure jsonb default null
)
  returns table (id uuid, deduplicated boolean)
  language plpgsql volatile
  as $$
  #variable_conflict use_variable
  declare
    item scheduled_actions;
    seconds double precision := 0;
    problem text;
  begin
    item.id := scheduled_actions_uuid7();
    item.action_type := action_type;
    item.payload := case dedup_mode when 'append' then jsonb_build_array(payload) else payload end;
    item.scheduled_at := coalesce(scheduled_at, scheduled_actions_now());
    item.team_id := team_id;
    item.max_attempts := max_attempts;
    item.retry := retry;
    item.lock_group := lock_group;
    item.lock_group_blocks := coalesce(lock_group_blocks, false);
    item.dedup_key := coalesce(dedup_key, scheduled_actions_derived_key(payload, item.scheduled_at));
    item.dedup_event := case when dedup_key is not null then payload ->> 'event' end;
    item.target_type := target ->> 'type';
    item.target_id := target ->> 'id';
    item.user_id := user_id;
    item.metadata := metadata;
    item.created_by := created_by;
    problem := scheduled_actions_problem(
      action_type, payload, item.scheduled_at, team_id, priority, max_attempts, retry, lock_group, item.dedup_key,
      dedup_window, dedup_mode,
      condition is not null or after is not null or on_success is not null or on_failure is not null);
    if problem is not null then
      perform scheduled_actions_refuse(problem);
    end if;
    item.priority := priority;
    if item.dedup_key is not null then
      seconds := coalesce(dedup_window, scheduled_actions_dedup_window(action_type));
    end if;
    item.dedup_open := seconds > 0;
    return query select put.id, put.deduplicated from scheduled_actions_put_patiently(item, seconds, dedup_mode) put;
  end
  $$;

-- The elements of schedule_actions as rows, with what schedule_action would make of them.
create function scheduled_actions_elements(new_actions jsonb)
  returns table (
    "position" bigint, id uuid, action_type text, payload jsonb, scheduled_at timestamptz, team_id text, priority integer,
    max_attempts integer, retry jsonb, lock_group text, lock_group_blocks boolean, dedup_key text, dedup_event text,
    dedup_open boolean, dedup_seconds double precision, dedup_mode text, target_type text, target_id text, user_id text,
    metadata jsonb, created_by text, problem text
  )
  language sql volatile
  as $$
    select
      e.position, scheduled_actions_uuid7(), e.action_type,
      case e.dedup_mode when 'append' then jsonb_build_array(e.payload) else e.payload end,
      e.due_at, e.team_id, e.priority, e.max_attempts, e.retry, e.lock_group, e.lock_group_blocks, e.dedup_key,
      e.dedup_event, e.dedup_key is not null and coalesce(e.dedup_window, e.usual_window) > 0,
      coalesce(e.dedup_window, e.usual_window), e.dedup_mode, e.target ->> 'type', e.target ->> 'id', e.user_id,
      e.metadata, e.created_by,
      scheduled_actions_problem(
        e.action_type, e.payload, e.due_at, e.team_id, e.priority, e.max_attempts, e.retry, e.lock_group, e.dedup_key,
        e.dedup_window, e.dedup_mode, e.later_feature)
    from (
      select
        r.position, r.action_type, coalesce(r.payload, '{}') as payload, at.due_at, r.team_id,
        coalesce(r.priority, 0) as priority, r.max_attempts, r.retry, r.lock_group,
        coalesce(r.lock_group_blocks, false) as lock_group_blocks,
        coalesce(r.dedup_key, scheduled_actions_derived_key(r.payload, at.due_at)) as dedup_key,
        case when r.dedup_key is not null then r.payload ->> 'event' end as dedup_event,
        r.dedup_window, coalesce(r.dedup_mode, 'latest') as dedup_mode, r.target, r.user_id, r.metadata, r.created_by,
        coalesce(r.condition, r.on_success, r.on_failure, r.after) is not null as later_feature,
        case when r.dedup_window is null and (r.dedup_key is not null or r.payload ? 'entity_id')
          then scheduled_actions_dedup_window(r.action_type) end as usual_window
      from rows from (
        jsonb_to_recordset(new_actions) as (
          action_type text, payload jsonb, scheduled_at timestamptz, team_id text, priority integer, max_attempts integer,
          retry jsonb, lock_group text, lock_group_blocks boolean, dedup_key text, dedup_window double precision,
          dedup_mode text, target jsonb, user_id text, metadata jsonb, created_by text, condition jsonb,
          on_success jsonb, on_failure jsonb, after jsonb, delay double precision)
      ) with ordinality as r (
        action_type, payload, scheduled_at, team_id, priority, max_attempts, retry, lock_group, lock_group_blocks,
        dedup_key, dedup_window, dedup_mode, target, user_id, metadata, created_by, condition, on_success, on_failure,
        after, delay, "position")
      cross join lateral (
        select coalesce(r.scheduled_at, scheduled_actions_now() + make_interval(secs => coalesce(r.delay, 0)))
      ) at (due_at)
      offset 0  -- computed once: without it each use of a column above repeats its expression
    ) e
  $$;

-- One element of schedule_actions, made what schedule_action makes of its arguments.
create function scheduled_actions_put_element(element jsonb, wait_ms integer)
  returns table (id uuid, deduplicated boolean)
  language sql volatile
  as $$
    select put.id, put.deduplicated
    from scheduled_actions_elements(jsonb_build_array(element)) e
    cross join lateral scheduled_actions_put_patiently(
      jsonb_populate_record(null::scheduled_actions, to_jsonb(e)), e.dedup_seconds, e.dedup_mode, wait_ms) put
  $$;

-- Schedules many at once: each element has the names of schedule_action's arguments, or `delay` (seconds from now) in
-- place of `scheduled_at`. Answers in their order.
create function schedule_actions(new_actions jsonb)
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
          dedup_key, dedup_event, dedup_open, target_type, target_id, user_id, metadata, created_by
        )
        select
          id, action_type, payload, team_id, priority, scheduled_at, max_attempts, retry, lock_group, lock_group_blocks,
          dedup_key, dedup_event, dedup_open, target_type, target_id, user_id, metadata, created_by
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
        greatest(1, (extract(epoch from wait_until - clock_timestamp()) * 1000)::int)) put;
      ids[position] := placed.id;
      merged[position] := placed.deduplicated;
    end loop;
    return query select u.id, u.deduplicated from unnest(ids, merged) u (id, deduplicated);
  end
  $$;
