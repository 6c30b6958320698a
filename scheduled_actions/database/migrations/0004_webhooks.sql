-- Webhooks: endpoints in the database, how each endpoint has been doing, the deliveries as a view, and events that a
-- table's own triggers schedule.

-- Receivers that teams (or the operator, without a team) set up while the application runs. Secrets and the values of
-- headers are encrypted by the application; the database never sees the key.
create table webhook_endpoints (
  id uuid primary key default scheduled_actions_uuid7(),
  team_id text,
  url text not null,
  description text not null default '',
  patterns text[] not null,
  filter jsonb,
  enabled boolean not null default true,
  ordering text not null default 'none',
  rate_limit double precision,
  retry jsonb,
  -- The names in the open, the values encrypted, all of them together.
  header_names text[] not null default '{}',
  headers text,
  secret text not null,
  previous_secret text,
  previous_secret_until timestamptz,
  created_by text,
  created_at timestamptz not null default scheduled_actions_now(),
  updated_at timestamptz not null default scheduled_actions_now(),
  constraint webhook_endpoints_ordering_is_known check (ordering in ('none', 'fifo')),
  constraint webhook_endpoints_rate_is_a_rate check (rate_limit > 0),
  constraint webhook_endpoints_rotation_is_whole check ((previous_secret is null) = (previous_secret_until is null))
);
create index webhook_endpoints_team on webhook_endpoints (team_id);
create index webhook_endpoints_fifo on webhook_endpoints (team_id) where ordering = 'fifo';

-- How an endpoint, of the file or of the table above, has been doing. No row: nothing but success so far.
create table webhook_endpoint_states (
  -- The name in the file, or the id as text.
  endpoint text primary key,
  -- The first failure since the last success.
  failing_since timestamptz,
  last_failure_at timestamptz,
  -- The failure that started the clock: twelve hours or more after the first.
  clock_started_at timestamptz,
  warned_at timestamptz,
  disabled_at timestamptz,
  disabled_reason text,
  -- The earliest instant of the next delivery under a rate limit, and of one that is put off behind those waiting.
  rate_next_at timestamptz,
  rate_queue_at timestamptz
)
with (fillfactor = 50);

-- The place of the next delivery under a rate limit: it may go after `wait` seconds, and its place is taken, where that is
-- no longer than `patience`; else none is, and `wait` leads behind all that were put off before. A second's worth may go at
-- once. Source: the generic cell rate algorithm (ITU-T I.371).
create function webhook_take_place(endpoint text, rate double precision, patience double precision)
  returns table (is_taken boolean, wait double precision)
  language plpgsql volatile
  as $$
  declare
    now constant timestamptz := clock_timestamp();
    step constant interval := make_interval(secs => 1 / rate);
    next_at timestamptz;
    queue_at timestamptz;
  begin
    insert into webhook_endpoint_states as s (endpoint) values (webhook_take_place.endpoint) on conflict do nothing;
    select s.rate_next_at, s.rate_queue_at into next_at, queue_at
    from webhook_endpoint_states s where s.endpoint = webhook_take_place.endpoint for update;
    next_at := greatest(next_at, now - greatest(interval '1 second' - step, interval '0'));
    wait := greatest(0, extract(epoch from next_at - clock_timestamp()));
    is_taken := wait <= patience;
    if not is_taken then
      queue_at := greatest(queue_at, next_at) + step;
      wait := extract(epoch from queue_at - now);
    end if;
    update webhook_endpoint_states s
    set
      rate_next_at = case when is_taken then next_at + step else s.rate_next_at end,
      rate_queue_at = queue_at
    where s.endpoint = webhook_take_place.endpoint;
    return next;
  end
  $$;

-- Which events there have been, of each team ('' for none).
create table webhook_event_types (
  team_id text not null,
  event text not null,
  first_seen_at timestamptz not null default scheduled_actions_now(),
  last_seen_at timestamptz not null default scheduled_actions_now(),
  primary key (team_id, event)
);

-- Order, where an endpoint asks for it: a delivery joins the lock group of its endpoint and entity, and an event that
-- such an endpoint may get the group of its entity, so that events are also routed one after the other.
create function scheduled_actions_order_webhook() returns trigger
  language plpgsql
  as $$
  declare
    endpoint text := new.payload ->> 'endpoint';
    lock_group text;
  begin
    if exists (
      select from scheduled_action_settings s
      where s.name = 'webhook_fifo' and case when endpoint is null then s.value <> '[]' else s.value ? endpoint end
    ) or exists (
      select from webhook_endpoints e
      where e.ordering = 'fifo'
        and case when endpoint is null then e.team_id is null or e.team_id = new.team_id else e.id::text = endpoint end
    ) then
      lock_group := concat_ws(':', 'webhook', coalesce(endpoint, ''), new.payload ->> 'entity_type', new.payload ->> 'entity_id');
      new.lock_group := case when length(lock_group) <= 255 then lock_group else 'webhook-md5:' || md5(lock_group) end;
      new.lock_group_blocks := true;
    end if;
    return new;
  end
  $$;

create trigger scheduled_actions_order_webhook before insert on scheduled_actions
  for each row when (new.action_type = 'webhook:send' and new.lock_group is null)
  execute function scheduled_actions_order_webhook();

-- One attempt of a delivery as its history tells it. The words of the error are those of the handler.
create function webhook_attempt(entry jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
    select jsonb_build_object(
      'attempt', entry -> 'attempt',
      'at', entry -> 'started_at',
      'status', said.parts[1]::integer,
      'duration_ms', round(
        extract(epoch from (entry ->> 'ended_at')::timestamptz - (entry ->> 'started_at')::timestamptz) * 1000),
      'answer', case when said.parts[1] not like '3%' then said.parts[2] end,
      'error', entry -> 'error')
    from (
      select regexp_match(entry ->> 'error', '^(?:DeliveryFailed: )?endpoint "[^"]*" answered (\d{3})(?:: (.*))?$') as parts
    ) said
  $$;

-- The HTTP status in a result; null where it has none: a project may have a handler of its own.
create function webhook_status(result jsonb) returns integer
  language sql immutable parallel safe
  as $$ select case when result ->> 'status' ~ '^[1-9][0-9]{2}$' then (result ->> 'status')::integer end $$;

-- Every delivery: an event on its way to one endpoint, an action like others.
create view webhook_deliveries as
  select
    a.id,
    a.status,
    a.payload ->> 'endpoint' as endpoint,
    a.team_id,
    coalesce(a.payload ->> 'event', '') as event,
    coalesce(a.payload ->> 'entity_type', '') as entity_type,
    coalesce(a.payload ->> 'entity_id', '') as entity_id,
    a.attempts,
    a.max_attempts,
    case when a.status = 'pending' then a.scheduled_at end as next_attempt_at,
    case when a.status = 'completed' then webhook_status(a.result)
      else (webhook_attempt(a.history -> -1) ->> 'status')::integer end as response_status,
    a.error_message as error,
    coalesce(
      (
        select jsonb_agg(webhook_attempt(h.entry) order by h.position)
        from jsonb_array_elements(a.history) with ordinality h (entry, position)
        where h.entry ->> 'outcome' in ('failed', 'timed_out', 'crashed')
      ),
      '[]') || case when a.status = 'completed'
      then jsonb_build_array(jsonb_build_object(
        'attempt', a.attempts, 'at', a.started_at, 'status', webhook_status(a.result),
        'duration_ms', case when jsonb_typeof(a.result -> 'duration_ms') = 'number' then a.result -> 'duration_ms' end,
        'answer', a.result ->> 'answer', 'error', null))
      else '[]' end as attempt_log,
    coalesce(a.metadata ->> 'event_action_id', a.id::text) as event_action_id,
    a.lock_group,
    a.started_at,
    a.completed_at,
    a.created_at,
    a.updated_at
  from scheduled_actions a
  where a.action_type = 'webhook:send' and a.payload ? 'endpoint' and jsonb_typeof(a.payload -> 'endpoint') = 'string';

-- Events from the data itself.

create function scheduled_actions_picked(record jsonb, keys jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
    select coalesce(jsonb_object_agg(k.name, record -> k.name), '{}')
    from jsonb_array_elements_text(keys) k (name)
    where record ? k.name
  $$;

-- What identifies a row: the value of its one id column, or a list of those of several.
create function scheduled_actions_row_key(record jsonb, id_columns jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
    select case jsonb_array_length(id_columns)
      when 1 then record -> (id_columns ->> 0)
      else (
        select jsonb_agg(record -> c.name order by c.position)
        from jsonb_array_elements_text(id_columns) with ordinality c (name, position))
    end
  $$;

-- A change of one row as an element of schedule_actions; null where there is nothing to tell: the verb is not watched,
-- or no watched column is any different.
create function scheduled_actions_change(watch jsonb, before jsonb, after jsonb, at timestamptz, table_name text)
  returns jsonb
  language plpgsql stable
  as $$
  declare
    verb constant text := case when before is null then 'created' when after is null then 'deleted' else 'updated' end;
    whole constant jsonb := coalesce(after, before);
    row_key constant jsonb := scheduled_actions_row_key(whole, watch -> 'id');
    entity_id constant text := row_key #>> '{}';
    team_id constant text := nullif(whole ->> (watch ->> 'team'), '');
    changed jsonb;
    data jsonb;
    payload jsonb;
  begin
    if not watch -> 'on' ? verb then
      return null;
    end if;
    if entity_id is null or not whole ? coalesce(watch ->> 'team', watch -> 'id' ->> 0) then
      raise exception 'a column that the watch needs is not there any more: watch the table again';
    end if;
    if watch ? 'columns' then
      before := scheduled_actions_picked(before, (watch -> 'id') || (watch -> 'columns'));
      after := scheduled_actions_picked(after, (watch -> 'id') || (watch -> 'columns'));
    end if;
    data := jsonb_build_object('record', case verb when 'deleted' then before else after end);
    if verb = 'updated' then
      select jsonb_agg(n.name order by n.name) into changed
      from jsonb_each(after) n (name, value) where n.value is distinct from before -> n.name;
      if changed is null then
        return null;
      end if;
      data := data || jsonb_build_object('changed', changed, 'previous', scheduled_actions_picked(before, changed));
    end if;
    -- A row too large for a payload is told without its columns: an event is never lost for its size.
    if pg_column_size(data) > 65536 and octet_length(data::text) > 250000 then
      data := jsonb_build_object('record', scheduled_actions_picked(whole, watch -> 'id'), 'is_cut', true)
        || case when changed is null then '{}' else jsonb_build_object('changed', changed) end;
    end if;
    payload := jsonb_build_object(
      'event', (watch ->> 'entity') || ':' || verb, 'entity_type', watch -> 'entity', 'entity_id', entity_id, 'data', data);
    return jsonb_build_object(
      'action_type', 'webhook:send', 'payload', payload, 'team_id', team_id, 'scheduled_at', at,
      'dedup_window', watch -> 'dedup_window',
      -- Not the derived key: that tells actions of different instants apart.
      'dedup_key', case when (watch ->> 'dedup_window')::double precision > 0
        then 'watch:' || md5(jsonb_build_array(watch -> 'entity', entity_id)::text) end,
      'target', jsonb_build_object('type', watch -> 'entity', 'id', entity_id),
      'created_by', 'watch:' || table_name);
  end
  $$;

-- What the triggers of a watched table do after each statement. Whatever goes wrong here is a warning: a write never
-- fails for the sake of an event. Only a cancelled statement and a statement timeout end it.
create function scheduled_actions_emit_changes() returns trigger
  language plpgsql security definer
  as $$
  declare
    watch constant jsonb := tg_argv[0];
    table_name constant text := format('%I.%I', tg_table_schema, tg_table_name);
    -- The statement may have waited long for a row: its own beginning would put it before what it waited for.
    at constant timestamptz := scheduled_actions_now() + (clock_timestamp() - statement_timestamp());
    changes refcursor;
    change jsonb;
    batch jsonb[] := '{}';
  begin
    -- `r.*` is the row also where a column is called r.
    case tg_op
      when 'INSERT' then
        open changes for
          select scheduled_actions_change(watch, null, to_jsonb(r.*), at, table_name) from new_rows r;
      when 'DELETE' then
        open changes for
          select scheduled_actions_change(watch, to_jsonb(r.*), null, at, table_name) from old_rows r;
      else
        open changes for
          select scheduled_actions_change(watch, o.record, n.record, at, table_name)
          from (select to_jsonb(r.*) as record, scheduled_actions_row_key(to_jsonb(r.*), watch -> 'id') as key from old_rows r) o
          full join (
            select to_jsonb(r.*) as record, scheduled_actions_row_key(to_jsonb(r.*), watch -> 'id') as key from new_rows r
          ) n on n.key = o.key
          where o.record is distinct from n.record;
    end case;
    loop
      fetch changes into change;
      exit when not found;
      if change is not null then
        batch := batch || change;
      end if;
      if cardinality(batch) >= 1000 then
        perform schedule_actions(to_jsonb(batch));
        batch := '{}';
      end if;
    end loop;
    close changes;
    if batch <> '{}' then
      perform schedule_actions(to_jsonb(batch));
    end if;
    return null;
  exception when others then
    raise warning 'scheduled_actions: no event tells of this % of %: % (%)', lower(tg_op), table_name, sqlerrm, sqlstate;
    return null;
  end
  $$;

-- It runs as its owner, so that who may write the table need not know of the tables of actions; what it names it finds
-- where it was made, never in a temporary schema of the writer's.
do $do$
begin
  execute format('alter function scheduled_actions_emit_changes() set search_path = %I, pg_temp', current_schema());
end
$do$;
revoke execute on function scheduled_actions_emit_changes() from public;

create function scheduled_actions_watch_columns(watched regclass) returns text[]
  language sql stable
  as $$
    select array_agg(a.attname::text order by a.attnum)
    from pg_attribute a where a.attrelid = watched and a.attnum > 0 and not a.attisdropped
  $$;

-- What keeps a table from being watched so, naming the value and what would be right; null when nothing does.
create function scheduled_actions_watch_problem(
  watched regclass, entity text, id_columns text[], team_column text, columns text[], verbs text[], dedup_window double precision
) returns text
  language plpgsql stable
  as $$
  declare
    there constant text[] := scheduled_actions_watch_columns(watched);
    unknown text;
  begin
    select name into unknown
    from unnest(id_columns || columns || team_column) name where name is not null and name <> all (there) limit 1;
    return case
      when (select c.relkind from pg_class c where c.oid = watched) not in ('r', 'p')
        then format('%s is no table: only tables can be watched', watched)
      when watched in (
        select c.oid from pg_class c
        where c.relname in (
          'scheduled_actions', 'scheduled_action_holds', 'scheduled_action_ticks', 'scheduled_action_settings',
          'scheduled_action_migrations', 'webhook_endpoints', 'webhook_endpoint_states', 'webhook_event_types')
      ) then format('%s is one of our own tables: its events would make events', watched)
      when entity is null or length(entity) not between 1 and 190 or entity ~ '[:[:cntrl:]]'
        then format('entity: %L is not 1 to 190 printable characters without a colon', left(entity, 80))
      when verbs is null or verbs = '{}' or not verbs <@ '{created,updated,deleted}'
        then format('on: %s is not some of created, updated, deleted', array_to_string(verbs, ','))
      when dedup_window is null or dedup_window not between 0 and 31622400
        then format('dedup_window: %s is not a number of seconds between 0 and a year', dedup_window)
      when unknown is not null
        then format('%s has no column %I; it has %s', watched, unknown, array_to_string(there, ', '))
      when coalesce(id_columns, '{}') = '{}'
        then format('%s has no primary key: name the id column, one that is unique and not null', watched)
      when not exists (
        select from pg_index i
        where i.indrelid = watched and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
          and array(
            select a.attname::text from pg_attribute a
            where a.attrelid = watched and a.attnum = any (i.indkey[0:i.indnkeyatts - 1])
          ) <@ id_columns
      ) or exists (
        select from pg_attribute a where a.attrelid = watched and a.attname = any (id_columns) and not a.attnotnull
      ) then format('id column: %s of %s is not unique and not null', array_to_string(id_columns, ', '), watched)
    end;
  end
  $$;

-- Takes the triggers of one entity, or of all, off a table; answers how many watches there were.
create function scheduled_actions_unwatch(watched regclass, entity text default null) returns integer
  language plpgsql volatile
  as $$
  declare
    one record;
    entities text[] := '{}';
  begin
    for one in
      select w.trigger_name, w.entity from scheduled_actions_watch_triggers() w
      where w.watched = scheduled_actions_unwatch.watched
        and (scheduled_actions_unwatch.entity is null or w.entity = scheduled_actions_unwatch.entity)
    loop
      execute format('drop trigger %I on %s', one.trigger_name, watched);
      if one.entity <> all (entities) then
        entities := entities || one.entity;
      end if;
    end loop;
    return cardinality(entities);
  end
  $$;

-- The triggers that tell of changes, as the catalog has them: a table that is dropped or renamed needs no care.
create function scheduled_actions_watch_triggers()
  returns table (watched regclass, trigger_name name, entity text, watch jsonb, enabled boolean)
  language sql stable
  as $$
    select t.tgrelid::regclass, t.tgname, t.watch ->> 'entity', t.watch, t.tgenabled <> 'D'
    from (
      -- The one argument, ended by a zero byte.
      select g.*, convert_from(substring(g.tgargs for length(g.tgargs) - 1), 'UTF8')::jsonb as watch
      from pg_trigger g
      where g.tgfoid = 'scheduled_actions_emit_changes'::regproc and not g.tgisinternal and g.tgparentid = 0
    ) t
  $$;

-- From now on each statement that changes the table schedules `entity:created`, `entity:updated` and `entity:deleted`
-- in its own transaction, one event a row. Watching the same entity of the same table again replaces the watch.
create function scheduled_actions_watch(
  watched regclass,
  entity text,
  id_columns text[] default null,
  team_column text default null,
  columns text[] default null,
  verbs text[] default '{created,updated,deleted}',
  dedup_window double precision default 0
) returns void
  language plpgsql volatile
  as $$
  declare
    ids constant text[] := coalesce(id_columns, (
      select array_agg(a.attname::text order by array_position(i.indkey::smallint[], a.attnum))
      from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
      where i.indrelid = watched and i.indisprimary));
    watch jsonb;
    verb text;
    operation text;
    problem text;
  begin
    problem := scheduled_actions_watch_problem(watched, entity, ids, team_column, columns, verbs, dedup_window);
    if problem is not null then
      perform scheduled_actions_refuse(problem);
    end if;
    watch := jsonb_strip_nulls(jsonb_build_object(
      'entity', entity, 'id', to_jsonb(ids), 'team', team_column, 'columns', to_jsonb(columns), 'on', to_jsonb(verbs),
      'dedup_window', dedup_window));
    perform scheduled_actions_unwatch(watched, entity);
    -- A changed id is the end of one entity and the beginning of another: updates are watched for all verbs.
    foreach operation in array array['insert', 'update', 'delete'] loop
      verb := case operation when 'insert' then 'created' when 'update' then 'updated' else 'deleted' end;
      if operation = 'update' or verb = any (verbs) then
        execute format(
          'create trigger %I after %s on %s %s for each statement execute function scheduled_actions_emit_changes(%L)',
          'scheduled_actions_' || verb || '_' || left(md5(entity), 12), operation, watched,
          case operation
            when 'insert' then 'referencing new table as new_rows'
            when 'delete' then 'referencing old table as old_rows'
            else 'referencing old table as old_rows new table as new_rows'
          end,
          watch::text);
      end if;
    end loop;
  end
  $$;
