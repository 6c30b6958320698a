-- Conditions: facts that the application reports, what actions wait for, and what follows from their ends.

alter table scheduled_actions
  -- How the wait for its condition stands: since when, checks made, the next one, what is not met and since when.
  add column waiting jsonb,
  -- What is scheduled when it completes, and when it fails: lists of what schedule_actions takes.
  add column on_success jsonb,
  add column on_failure jsonb,
  -- Another action waits for its end.
  add column awaited boolean not null default false;

-- What is so of a thing: the latest that was reported. `team_id` is '' outside any team.
create table scheduled_action_facts (
  id uuid not null default scheduled_actions_uuid7(),
  team_id text not null default '',
  target_type text not null,
  target_id text not null,
  name text not null,
  value jsonb not null,
  reported_by text,
  changed_at timestamptz not null default scheduled_actions_now(),
  reported_at timestamptz not null default scheduled_actions_now(),
  primary key (team_id, target_type, target_id, name)
)
with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
create unique index scheduled_action_facts_id on scheduled_action_facts (id);

-- Each value that a fact had; a null one stands for its removal.
create table scheduled_action_fact_changes (
  id uuid primary key default scheduled_actions_uuid7(),
  team_id text not null,
  target_type text not null,
  target_id text not null,
  name text not null,
  value jsonb,
  reported_by text,
  changed_at timestamptz not null default scheduled_actions_now()
);
create index scheduled_action_fact_changes_of on scheduled_action_fact_changes (team_id, target_type, target_id, name, id);

-- Who waits for what, registered before it is looked at. `is_woken`: it has changed since, so that a look which is under way
-- and finds the condition not met is no reason to wait.
create table scheduled_action_waits (
  topic uuid not null,
  action_id uuid not null,
  is_woken boolean not null default false,
  primary key (topic, action_id)
)
with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
create index scheduled_action_waits_action on scheduled_action_waits (action_id);

-- What has changed and may be waited for. Added to in the transaction of the change, which therefore waits for nobody, and
-- taken away by a tick once that has committed: by then every wait that did not see the change can be seen.
create table scheduled_action_wakes (
  id bigint generated always as identity primary key,
  topic uuid not null
)
with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);

create trigger scheduled_action_wakes_tell_listeners
  after insert on scheduled_action_wakes
  for each statement execute function scheduled_actions_tell_listeners();

-- What is waited for where a fact is: a name that ends in ":*" stands for all that begin so.
create function scheduled_actions_fact_topic(team_id text, target_type text, target_id text, name text) returns uuid
  language sql stable parallel safe
  as $$ select md5(jsonb_build_array(coalesce(team_id, ''), target_type, target_id, name)::text)::uuid $$;

-- Those who wait for a fact are woken once this transaction has committed.
create function scheduled_actions_fact_changed(team_id text, target_type text, target_id text, name text)
  returns boolean
  language plpgsql volatile
  as $$
  declare
    parts text[] := string_to_array(name, ':');
    topics uuid[];
  begin
    topics := array(
      select scheduled_actions_fact_topic(team_id, target_type, target_id, n.known_as)
      from (
        select name as known_as
        union all
        select array_to_string(parts[1:l.length], ':') || ':*' from generate_series(1, cardinality(parts) - 1) l (length)
      ) n
      order by 1);
    insert into scheduled_action_wakes (topic) select unnest(topics);
    return exists (select from scheduled_action_waits w where w.topic = any (topics));
  end
  $$;

-- Says what is so of a thing. `changed`: it was not so before; `awaited`: an action waits for it.
create function report_fact(
  target jsonb, name text, value jsonb, team_id text default null, reported_by text default null
)
  returns table (changed boolean, awaited boolean)
  language plpgsql volatile
  as $$
  #variable_conflict use_variable
  declare
    team constant text := coalesce(team_id, '');
    type constant text := target ->> 'type';
    thing constant text := target ->> 'id';
    oldest uuid;
  begin
    if type is null or thing is null or length(type) not between 1 and 255 or length(thing) not between 1 and 255 then
      perform scheduled_actions_refuse('target: is not {"type": …, "id": …} of 1 to 255 characters each');
    elsif name is null or length(name) not between 1 and 255 or name like '%*%' then
      perform scheduled_actions_refuse('name: is not 1 to 255 characters without *');
    elsif value is null then
      perform scheduled_actions_refuse('value: is not JSON');
    elsif pg_column_size(value) > 4096 and octet_length(value::text) > 16384 then
      perform scheduled_actions_refuse(format('value is %s bytes; at most 16384 are taken', octet_length(value::text)));
    end if;
    update scheduled_action_facts f
    set reported_at = scheduled_actions_now(), reported_by = report_fact.reported_by
    where f.team_id = team and f.target_type = type and f.target_id = thing and f.name = report_fact.name
      and f.value = report_fact.value;
    if found then
      return query select false, false;
      return;
    end if;
    insert into scheduled_action_facts as f (team_id, target_type, target_id, name, value, reported_by)
    values (team, type, thing, name, value, reported_by)
    on conflict on constraint scheduled_action_facts_pkey
    do update set
      value = excluded.value, reported_by = excluded.reported_by, changed_at = excluded.changed_at,
      reported_at = excluded.reported_at;
    insert into scheduled_action_fact_changes (team_id, target_type, target_id, name, value, reported_by)
    values (team, type, thing, name, value, reported_by);
    select c.id into oldest
    from scheduled_action_fact_changes c
    where c.team_id = team and c.target_type = type and c.target_id = thing and c.name = report_fact.name
    order by c.id desc
    offset 1000 limit 1;
    if oldest is not null then
      delete from scheduled_action_fact_changes c
      where c.team_id = team and c.target_type = type and c.target_id = thing and c.name = report_fact.name
        and c.id <= oldest;
    end if;
    return query select true, scheduled_actions_fact_changed(team, type, thing, name);
  end
  $$;

-- Wakes those who wait for what has changed, at most `most` changes; answers how many were taken away.
-- Marks are set before actions are touched, as settlements of waiting ones do it: nobody waits in a circle. Each statement
-- here sees what had been committed before it began.
create function scheduled_actions_wake_waiting(most integer) returns integer
  language plpgsql volatile
  as $$
  declare
    taken uuid[];
    waiters uuid[];
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
    -- One that somebody moved to another time since its last check is left there.
    update scheduled_actions a
    set scheduled_at = scheduled_actions_now(), updated_at = scheduled_actions_now()
    where a.id = any (array(
      select b.id
      from scheduled_actions b
      where b.id = any (waiters)
        and b.status = 'pending'
        and b.scheduled_at > scheduled_actions_now()
        and b.scheduled_at = (b.waiting ->> 'next_check_at')::timestamptz
      order by b.id
      for update));
    return cardinality(taken);
  end
  $$;

-- What a tick asks first, as scheduled_actions_look has it, and whether something has changed that actions may wait for.
create function scheduled_actions_look_around(
  tick_id uuid,
  may_be_idle boolean,
  action_types text[],
  retention_days integer,
  retention_failed_days integer,
  caller text,
  counts jsonb,
  budget jsonb,
  out may_have_due boolean,
  out has_expired boolean,
  out has_lost_ticks boolean,
  out has_old_holds boolean,
  out has_unhandled boolean,
  out has_prunable boolean,
  out has_wakes boolean,
  out is_noted boolean
)
  language plpgsql volatile
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
  as $$
  begin
    has_wakes := (select w.id from scheduled_action_wakes w order by w.id limit 1) is not null;
    select l.may_have_due, l.has_expired, l.has_lost_ticks, l.has_old_holds, l.has_unhandled, l.has_prunable, l.is_noted
    into may_have_due, has_expired, has_lost_ticks, has_old_holds, has_unhandled, has_prunable, is_noted
    from scheduled_actions_look(
      tick_id, may_be_idle and not has_wakes, action_types, retention_days, retention_failed_days, caller, counts, budget) l;
  end
  $$;

-- The end of an action that others wait for wakes them, whoever brings it about.
create function scheduled_actions_wake_after() returns trigger
  language plpgsql
  as $$
  begin
    insert into scheduled_action_wakes (topic) values (new.id);
    return null;
  end
  $$;

create trigger scheduled_actions_wake_after
  after update of status on scheduled_actions
  for each row
  when (new.awaited and new.status in ('completed', 'failed', 'cancelled', 'skipped'))
  execute function scheduled_actions_wake_after();

-- What an action has to wait for: the ends of others, and its own condition.
create function scheduled_actions_condition(condition jsonb, after jsonb) returns jsonb
  language sql stable parallel safe
  as $$
    select case
      when after is null or after = '[]' then condition
      else jsonb_build_object('after', after)
        || case when condition is null then '{}' else jsonb_build_object('condition', condition) end
    end
  $$;

-- A follow-up, or a list of them, as the list that schedule_actions takes.
create function scheduled_actions_follow_ups(given jsonb) returns jsonb
  language sql immutable parallel safe
  as $$ select case jsonb_typeof(given) when 'object' then jsonb_build_array(given) else nullif(given, '[]') end $$;

-- Follow-ups belong to the team of the action they follow, and say whom they follow where nobody else asked for them.
create function scheduled_actions_following(follow_ups jsonb, id uuid, team_id text) returns jsonb
  language sql stable parallel safe
  as $$
    select coalesce(
      jsonb_agg(
        jsonb_build_object('created_by', 'action:' || id) || f.one
        || case when team_id is null then '{}' else jsonb_build_object('team_id', team_id) end),
      '[]')
    from jsonb_array_elements(follow_ups) f (one)
  $$;

-- What keeps them from being what they should be; null when nothing does.
create function scheduled_actions_extras_problem(
  condition jsonb, after jsonb, on_success jsonb, on_failure jsonb, team_id text
) returns text
  language plpgsql stable
  as $$
  declare
    problem text;
    one record;
    taken constant text[] := array[
      'action_type', 'payload', 'scheduled_at', 'priority', 'max_attempts', 'retry', 'lock_group', 'lock_group_blocks',
      'dedup_key', 'dedup_window', 'dedup_mode', 'target', 'user_id', 'metadata', 'created_by', 'condition', 'after',
      'on_success', 'on_failure', 'delay'];
  begin
    if jsonb_typeof(condition) <> 'object' then
      return 'condition: is not a JSON object';
    elsif octet_length(condition::text) > 32768 then
      return format('condition is %s bytes; at most 32768 are taken', octet_length(condition::text));
    end if;
    if after is not null then
      if jsonb_typeof(after) <> 'array' or jsonb_array_length(after) > 100 then
        return 'after: is not a list of at most 100 ids';
      end if;
      select format('after: no action has the id %s', left(e.id, 80)) into problem
      from jsonb_array_elements_text(after) e (id)
      where not exists (
        select
        from scheduled_actions a
        where a.id = case when e.id ~* '^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$' then e.id::uuid end
          and coalesce(a.team_id, '') = coalesce(scheduled_actions_extras_problem.team_id, ''))
      limit 1;
      if problem is not null then
        return problem;
      end if;
    end if;
    for one in
      select n.name, n.given
      from (values ('on_success', on_success), ('on_failure', on_failure)) n (name, given)
      where n.given is not null
    loop
      if octet_length(one.given::text) > 65536 then
        return format('%s is %s bytes; at most 65536 are taken', one.name, octet_length(one.given::text));
      end if;
      problem := case
        when jsonb_typeof(one.given) not in ('object', 'array')
          then 'is not {"action_type": …, "payload": …} or a list of these'
        when jsonb_array_length(scheduled_actions_follow_ups(one.given)) > 20 then 'holds more than 20 actions'
      end;
      if problem is null then
        select case
          when jsonb_typeof(e.element) <> 'object' then 'is not {"action_type": …, "payload": …} or a list of these'
          when jsonb_typeof(e.element -> 'action_type') is distinct from 'string' then 'needs an action_type'
          when e.element - taken <> '{}' then format(
            '%L is no argument of a follow-up', (select min(k.name) from jsonb_object_keys(e.element - taken) k (name)))
        end
        into problem
        from jsonb_array_elements(scheduled_actions_follow_ups(one.given)) e (element)
        where jsonb_typeof(e.element) <> 'object'
          or jsonb_typeof(e.element -> 'action_type') is distinct from 'string'
          or e.element - taken <> '{}'
        limit 1;
      end if;
      if problem is not null then
        return format('%s: %s', one.name, problem);
      end if;
    end loop;
    return null;
  end
  $$;

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
          condition, on_success, on_failure
        )
        values (
          item.id, item.action_type, item.payload, item.team_id, item.priority, item.scheduled_at, item.max_attempts,
          item.retry, item.lock_group, item.lock_group_blocks, item.dedup_key, item.dedup_event, item.dedup_open,
          item.target_type, item.target_id, item.user_id, item.metadata, item.created_by, item.condition, item.on_success,
          item.on_failure
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

create or replace function schedule_action(
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
      dedup_window, dedup_mode, false);
    if condition is not null or after is not null or on_success is not null or on_failure is not null then
      problem := coalesce(
        problem, scheduled_actions_extras_problem(condition, to_jsonb(after), on_success, on_failure, team_id));
      item.condition := scheduled_actions_condition(condition, to_jsonb(after));
      item.on_success := scheduled_actions_follow_ups(on_success);
      item.on_failure := scheduled_actions_follow_ups(on_failure);
    end if;
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

drop function scheduled_actions_elements(jsonb);

-- The elements of schedule_actions as rows, with what schedule_action would make of them.
create function scheduled_actions_elements(new_actions jsonb)
  returns table (
    "position" bigint, id uuid, action_type text, payload jsonb, scheduled_at timestamptz, team_id text, priority integer,
    max_attempts integer, retry jsonb, lock_group text, lock_group_blocks boolean, dedup_key text, dedup_event text,
    dedup_open boolean, dedup_seconds double precision, dedup_mode text, target_type text, target_id text, user_id text,
    metadata jsonb, created_by text, condition jsonb, on_success jsonb, on_failure jsonb, problem text
  )
  language sql volatile
  as $$
    select
      e.position, scheduled_actions_uuid7(), e.action_type,
      case e.dedup_mode when 'append' then jsonb_build_array(e.payload) else e.payload end,
      e.due_at, e.team_id, e.priority, e.max_attempts, e.retry, e.lock_group, e.lock_group_blocks, e.dedup_key,
      e.dedup_event, e.dedup_key is not null and coalesce(e.dedup_window, e.usual_window) > 0,
      coalesce(e.dedup_window, e.usual_window), e.dedup_mode, e.target ->> 'type', e.target ->> 'id', e.user_id,
      e.metadata, e.created_by, case when e.has_extras then scheduled_actions_condition(e.condition, e.after) end,
      case when e.has_extras then scheduled_actions_follow_ups(e.on_success) end,
      case when e.has_extras then scheduled_actions_follow_ups(e.on_failure) end,
      coalesce(
        scheduled_actions_problem(
          e.action_type, e.payload, e.due_at, e.team_id, e.priority, e.max_attempts, e.retry, e.lock_group, e.dedup_key,
          e.dedup_window, e.dedup_mode, false),
        case when e.has_extras
          then scheduled_actions_extras_problem(e.condition, e.after, e.on_success, e.on_failure, e.team_id) end)
    from (
      select
        r.position, r.action_type, coalesce(r.payload, '{}') as payload, at.due_at, r.team_id,
        coalesce(r.priority, 0) as priority, r.max_attempts, r.retry, r.lock_group,
        coalesce(r.lock_group_blocks, false) as lock_group_blocks,
        coalesce(r.dedup_key, scheduled_actions_derived_key(r.payload, at.due_at)) as dedup_key,
        case when r.dedup_key is not null then r.payload ->> 'event' end as dedup_event,
        r.dedup_window, coalesce(r.dedup_mode, 'latest') as dedup_mode, r.target, r.user_id, r.metadata, r.created_by,
        r.condition, r.after, r.on_success, r.on_failure,
        coalesce(r.condition, r.on_success, r.on_failure, r.after) is not null as has_extras,
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
create or replace function scheduled_actions_put_element(element jsonb, wait_ms integer)
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
create or replace function schedule_actions(new_actions jsonb)
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
          on_failure
        )
        select
          id, action_type, payload, team_id, priority, scheduled_at, max_attempts, retry, lock_group, lock_group_blocks,
          dedup_key, dedup_event, dedup_open, target_type, target_id, user_id, metadata, created_by, condition, on_success,
          on_failure
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
