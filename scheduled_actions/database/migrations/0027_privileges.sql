-- Code of other roles never runs with the rights of the owner of the actions.

-- Whether values of a type may be turned into JSON with our owner's rights. `to_jsonb` calls a cast that the owner of a
-- type defines: so every type in it must belong to a role that has our owner's rights anyway (a superuser, a member).
-- A cast from a domain is never used; the type that it is based on counts.
create function scheduled_actions_type_is_trusted(type oid) returns boolean
  language sql stable
  as $$
    with recursive part (oid) as (
      select type
      union
      select inner_type.oid
      from part p
      join pg_type t on t.oid = p.oid
      cross join lateral (
        select t.typbasetype where t.typtype = 'd'
        union all
        select t.typelem where t.typtype = 'b' and t.typcategory = 'A' and t.typelem <> 0
        union all
        select f.atttypid from pg_attribute f where f.attrelid = t.typrelid and f.attnum > 0 and not f.attisdropped
      ) inner_type (oid)
    )
    select bool_and(t.typtype = 'd' or pg_has_role(t.typowner, current_user, 'usage'))
    from part p
    join pg_type t on t.oid = p.oid
  $$;

-- The columns of a watched table's row `r` as a select list that `to_jsonb` may be given. A value of a type that is not
-- trusted becomes its text, a list of such values a list of texts: that calls the type's output function, which only a
-- superuser can define. Under a snapshot that is older than the row the catalog may name another type than the row has:
-- there each value is checked to be of the type that was judged.
create function scheduled_actions_json_columns(watched oid) returns text
  language plpgsql stable
  as $$
  declare
    is_old constant boolean := current_setting('transaction_isolation') <> 'read committed';
  begin
    return (
      select string_agg(
        format(
          case
            when not c.is_trusted then '%2$s as %1$I'
            when is_old then
              'case when pg_catalog.pg_typeof(r.%1$I)::pg_catalog.oid operator(pg_catalog.=) %3$L::pg_catalog.oid'
              ' then pg_catalog.to_jsonb(r.%1$I) else %2$s end as %1$I'
            else 'r.%1$I'
          end,
          c.name,
          format(
            'case when pg_catalog.num_nulls(r.%1$I) operator(pg_catalog.=) 0'
            ' then pg_catalog.to_jsonb(pg_catalog.format(%2$L, r.%1$I)%3$s) end',
            c.name, '%s', case when c.is_list then '::pg_catalog.text[]' end),
          c.type),
        ', ' order by c.number)
      from (
        select
          a.attnum as number, a.attname as name, a.atttypid as type, t.typcategory = 'A' as is_list,
          -- Types below this number came with the server.
          a.atttypid < 16384 or scheduled_actions_type_is_trusted(a.atttypid) as is_trusted
        from pg_attribute a
        join pg_type t on t.oid = a.atttypid
        where a.attrelid = watched and a.attnum > 0 and not a.attisdropped
      ) c
    );
  end
  $$;

-- What the triggers of a watched table do after each statement. Whatever goes wrong here is a warning: a write never
-- fails for the sake of an event. Only a cancelled statement and a statement timeout end it.
-- It runs with its owner's rights: rows are read as scheduled_actions_json_columns has them, and what it calls with their
-- values is named with its schema, or takes exactly these types.
create or replace function scheduled_actions_emit_changes() returns trigger
  language plpgsql security definer
  as $$
  declare
    watch constant jsonb := tg_argv[0];
    table_name constant text := pg_catalog.format('%I.%I', tg_table_schema, tg_table_name);
    -- The statement may have waited long for a row: its own beginning would put it before what it waited for.
    at constant timestamptz := scheduled_actions_now() operator(pg_catalog.+)
      (pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.statement_timestamp());
    columns constant text := scheduled_actions_json_columns(tg_relid);
    changes refcursor;
    change jsonb;
    batch jsonb[] := '{}';
  begin
    -- `r.*` is the row also where a column is called r.
    case tg_op
      when 'INSERT' then
        open changes for execute pg_catalog.format(
          'select scheduled_actions_change($1, null::jsonb, pg_catalog.to_jsonb(r.*), $2, $3)'
          ' from (select %s from new_rows r) r', columns)
          using watch, at, table_name;
      when 'DELETE' then
        open changes for execute pg_catalog.format(
          'select scheduled_actions_change($1, pg_catalog.to_jsonb(r.*), null::jsonb, $2, $3)'
          ' from (select %s from old_rows r) r', columns)
          using watch, at, table_name;
      else
        open changes for execute pg_catalog.format(
          'with o as (select pg_catalog.to_jsonb(r.*) as record from (select %1$s from old_rows r) r),'
          ' n as (select pg_catalog.to_jsonb(r.*) as record from (select %1$s from new_rows r) r)'
          ' select scheduled_actions_change($1, o.record, n.record, $2, $3)'
          ' from (select o.record, scheduled_actions_row_key(o.record, $4) as key from o) o'
          ' full join (select n.record, scheduled_actions_row_key(n.record, $4) as key from n) n'
          ' on n.key operator(pg_catalog.=) o.key'
          ' where o.record is null or n.record is null or o.record operator(pg_catalog.<>) n.record', columns)
          using watch, at, table_name, watch operator(pg_catalog.->) 'id'::text;
    end case;
    loop
      fetch changes into change;
      exit when not found;
      if change is not null then
        batch := pg_catalog.array_append(batch, change);
      end if;
      if pg_catalog.cardinality(batch) operator(pg_catalog.>=) 1000 then
        perform schedule_actions(pg_catalog.to_jsonb(batch));
        batch := '{}';
      end if;
    end loop;
    close changes;
    if pg_catalog.cardinality(batch) operator(pg_catalog.>) 0 then
      perform schedule_actions(pg_catalog.to_jsonb(batch));
    end if;
    return null;
  exception when others then
    raise warning 'scheduled_actions: no event was emitted for this % of %: % (%)', lower(tg_op), table_name, sqlerrm, sqlstate;
    return null;
  end
  $$;

-- Doors: schemas with what other roles may use of ours, and nothing else. A door is open to no team in particular, or
-- bound to one. Its functions have our owner's rights; which of them a role may execute says for which team it acts.

create function scheduled_actions_door(team text) returns text
  language sql immutable
  as $$
    select case
      when team is null then 'scheduled_actions_api'
      when team ~ '^[a-z][a-z0-9_]{0,39}$' then 'scheduled_actions_team_' || team
      -- Other ids are too long for a name, or would need quotes.
      else 'scheduled_actions_team_' || left(md5(team), 16) || '_'
    end
  $$;

-- Refuses what a role bound to a team may not schedule: `element` is an element of schedule_actions. What follows from it
-- belongs to the same team and is checked alike.
create function scheduled_actions_check_team(element jsonb, team text) returns void
  language plpgsql stable
  as $$
  declare
    problem text;
  begin
    if element ->> 'team_id' <> team then
      raise exception 'team_id: this role acts for the team %, not for %', to_jsonb(team), element -> 'team_id'
        using errcode = 'insufficient_privilege';
    end if;
    with recursive scheduled (one) as (
      select element
      union
      select f.one
      from scheduled s
      cross join lateral (
        select jsonb_path_query(s.one, '$.on_success[*]')
        union all select jsonb_path_query(s.one, '$.on_failure[*]')
        union all select jsonb_path_query(s.one, '$.condition.**.on_timeout[*]')
        -- Each row becomes an action of the payload's type, with its options as further arguments.
        union all select jsonb_path_query(s.one, '$ ? (@.action_type == "for_each:run").payload')
        union all select jsonb_path_query(s.one, '$ ? (@.action_type == "for_each:run").payload.options')
      ) f (one)
    )
    select case
      when s.one ->> 'action_type' = 'webhook:send' and s.one -> 'payload' ->> 'endpoint' is not null
        and not exists (
          select from webhook_endpoints e
          where e.team_id = team and e.id::text = s.one -> 'payload' ->> 'endpoint')
        then 'payload.endpoint: a role of a team delivers only to endpoints of that team, by id; without it, this is an event'
      -- These two cause a mail to the operator.
      when s.one ->> 'action_type' = 'webhook:send'
        and s.one -> 'payload' ->> 'event' in ('webhook:endpoint-disabled', 'webhook:endpoint-failing')
        then 'payload.event: this event is emitted when an endpoint fails'
      when not coalesce((
        select o.value ? (s.one ->> 'action_type')
        from scheduled_action_settings o
        where o.name = 'types_open_to_teams'
      ), s.one ->> 'action_type' = 'webhook:send')
        then format('action_type: %s is not open to teams', to_jsonb(left(s.one ->> 'action_type', 80)))
    end
    into problem
    from scheduled s
    where s.one ->> 'action_type' is not null
    order by 1
    limit 1;
    if problem is not null then
      raise exception '%', problem using errcode = 'insufficient_privilege';
    end if;
  end
  $$;

-- Creates the door of a team (null: of none in particular), or brings it up to what our functions and tables are now.
-- Roles that may use it keep their rights.
create function scheduled_actions_open_door(team text) returns text
  language plpgsql volatile
  as $$
  declare
    home constant text := current_schema();
    door constant text := scheduled_actions_door(team);
    sign constant text := format('scheduled_actions %s', jsonb_build_object('home', home, 'team', team));
    tables_owner constant regrole := (select c.relowner from pg_class c where c.oid = 'scheduled_actions'::regclass);
    entry record;
    shown record;
  begin
    -- The functions of a door have the rights of the role that creates them.
    if tables_owner <> current_user::regrole then
      perform scheduled_actions_refuse(format('only %s, the owner of the tables, may grant rights on them', tables_owner));
    end if;
    if not exists (select from pg_namespace n where n.nspname = door) then
      execute format('create schema %I', door);
      execute format('comment on schema %I is %L', door, sign);
    elsif not exists (
      select from pg_namespace n
      where n.nspname = door and n.nspowner = current_user::regrole
        and obj_description(n.oid, 'pg_namespace') = sign
    ) then
      perform scheduled_actions_refuse(format(
        'schema %I is there already, and it is not the door of these tables: rename or drop it', door));
    end if;
    for entry in
      select p.oid::regprocedure as ours, p.proname as name
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where n.nspname = door
    loop
      execute format('drop function %s', entry.ours);
    end loop;
    for entry in
      select
        p.proname as name, pg_get_function_arguments(p.oid) as arguments, pg_get_function_result(p.oid) as result,
        (select string_agg(format('%1$I => $%2$s', a.name, a.position), ', ' order by a.position)
         from unnest(p.proargnames) with ordinality a (name, position)
         where a.position <= p.pronargs and (team is null or a.name <> 'team_id')) as given,
        (select format('jsonb_build_object(%s)', string_agg(format('%L, to_jsonb($%s)', a.name, a.position), ', '))
         from unnest(p.proargnames) with ordinality a (name, position)
         where a.position <= p.pronargs) as element
      from pg_proc p
      where p.pronamespace = home::regnamespace
        and p.proname in ('schedule_action', 'schedule_actions', 'report_fact', 'scheduled_actions_now')
    loop
      execute format(
        'create function %I.%I(%s) returns %s language plpgsql volatile security definer'
        ' set search_path = %I, pg_temp as %L',
        door, entry.name, entry.arguments, entry.result, home,
        case
          when entry.name = 'scheduled_actions_now' then 'begin return scheduled_actions_now(); end'
          when team is null then format('begin return query select * from %I(%s); end', entry.name, entry.given)
          when entry.name = 'schedule_actions' then format(
            'begin return query select * from scheduled_actions_schedule_for(%L, $1); end', team)
          else format(
            'begin perform scheduled_actions_check_team(%s, %L); return query select * from %I(%s, team_id => %L); end',
            entry.element, team, entry.name, entry.given, team)
        end);
    end loop;
    execute format('revoke execute on all functions in schema %I from public', door);
    for shown in
      select
        c.relname as name,
        string_agg(format('t.%I', a.attname), ', ' order by a.attnum) as columns
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      where c.relnamespace = home::regnamespace
        and c.relname in (
          'scheduled_actions', 'scheduled_action_schedules', 'scheduled_action_deadlines', 'scheduled_action_facts',
          'scheduled_action_fact_changes', 'webhook_deliveries')
        -- The token of a claim is enough to settle it.
        and a.attname <> 'claim_token'
      group by c.relname
    loop
      execute format(
        'create or replace view %I.%I with (security_barrier) as select %s from %I.%I t%s',
        door, shown.name, shown.columns, home, shown.name,
        case when team is not null then format(' where t.team_id = %L', team) end);
    end loop;
    return door;
  end
  $$;

-- schedule_actions for a role that is bound to a team.
create function scheduled_actions_schedule_for(team text, new_actions jsonb)
  returns table (id uuid, deduplicated boolean)
  language plpgsql volatile
  as $$
  begin
    if jsonb_typeof(new_actions) = 'array' then
      perform scheduled_actions_check_team(e.element, team) from jsonb_array_elements(new_actions) e (element);
      new_actions := (
        select coalesce(jsonb_agg(
          case jsonb_typeof(e.element) when 'object' then e.element || jsonb_build_object('team_id', team) else e.element end
          order by e.position), '[]')
        from jsonb_array_elements(new_actions) with ordinality e (element, position));
    end if;
    return query select s.id, s.deduplicated from schedule_actions(new_actions) s;
  end
  $$;

-- Lets a role through the door of a team (null: of none in particular): `scheduler` may schedule, emit events and report
-- facts, `reader` may read actions, schedules, deadlines, facts and deliveries. Answers the door's name.
create function scheduled_actions_grant(kind text, role_name text, team text) returns text
  language plpgsql volatile
  as $$
  declare
    door text;
  begin
    if not exists (select from pg_roles r where r.rolname = role_name) then
      perform scheduled_actions_refuse(format('no role is called %I: create it first, `create role %1$I login`', role_name));
    elsif length(team) not between 1 and 255 then
      perform scheduled_actions_refuse('team_id: is not between 1 and 255 characters');
    end if;
    door := scheduled_actions_open_door(team);
    execute format('grant usage on schema %I to %I', door, role_name);
    -- The default privileges hold for what takes the place of these when the door is brought up to date.
    if kind = 'scheduler' then
      execute format('grant execute on all functions in schema %I to %I', door, role_name);
      execute format('alter default privileges in schema %I grant execute on functions to %I', door, role_name);
    else
      -- A view reads tables with its owner's rights, but calls functions with those of its reader.
      execute format('grant usage on schema %I to %I', current_schema(), role_name);
      execute format('grant select on all tables in schema %I to %I', door, role_name);
      execute format('alter default privileges in schema %I grant select on tables to %I', door, role_name);
    end if;
    return door;
  end
  $$;

-- The doors of our tables.
create function scheduled_actions_doors() returns table (door text, team text)
  language sql stable
  as $$
    select n.nspname::text, d.sign ->> 'team'
    from pg_namespace n
    cross join lateral (
      select substring(obj_description(n.oid, 'pg_namespace') from '^scheduled_actions (\{.*\})$')::jsonb
    ) d (sign)
    where starts_with(n.nspname, 'scheduled_actions_')
      and n.nspowner = current_user::regrole
      and d.sign ->> 'home' = current_schema()
  $$;

-- Sessions of the dashboard that were ended before their time: their cookies open nothing any more. A row outlives its
-- cookie, and is then removed.
create table scheduled_action_ended_sessions (
  id uuid primary key,
  ended_at timestamptz not null default scheduled_actions_now()
);
create index scheduled_action_ended_sessions_ended on scheduled_action_ended_sessions (ended_at);
