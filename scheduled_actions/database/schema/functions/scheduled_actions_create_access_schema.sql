-- The access schema of a team (null: of all teams) exists with the current functions and views for other roles. Privileges on
-- the schema are kept. Returns its name.
create or replace function scheduled_actions_create_access_schema(team text) returns text
  language plpgsql volatile
  as $$
  declare
    home constant text := current_schema();
    access_schema constant text := scheduled_actions_access_schema_name(team);
    sign constant text := format('scheduled_actions %s', jsonb_build_object('home', home, 'team', team));
    tables_owner constant regrole := (select c.relowner from pg_class c where c.oid = 'scheduled_actions'::regclass);
    entry record;
    shown record;
  begin
    -- The functions of an access schema run with the privileges of the role that creates them.
    if tables_owner <> current_user::regrole then
      perform scheduled_actions_refuse(format('only %s, the owner of the tables, may grant privileges on them', tables_owner));
    end if;
    if not exists (select from pg_namespace n where n.nspname = access_schema) then
      execute format('create schema %I', access_schema);
      execute format('comment on schema %I is %L', access_schema, sign);
    elsif not exists (
      select from pg_namespace n
      where n.nspname = access_schema and n.nspowner = current_user::regrole
        and obj_description(n.oid, 'pg_namespace') = sign
    ) then
      perform scheduled_actions_refuse(format(
        'schema %I exists, and it is not an access schema of these tables: rename or drop it', access_schema));
    end if;
    for entry in
      select p.oid::regprocedure as ours, p.proname as name
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where n.nspname = access_schema
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
      where p.pronamespace = quote_ident(home)::regnamespace
        and p.proname in (
          'schedule_action', 'schedule_actions', 'schedule_recurring_action', 'set_deadline', 'emit_event', 'report_fact',
          'scheduled_actions_now')
    loop
      if entry.name = 'emit_event' then
        -- An event is checked as the action that it becomes.
        entry.element := format(
          '%1$s || jsonb_build_object(''action_type'', ''webhook:send'', ''payload'', %1$s)', entry.element);
      end if;
      execute format(
        'create function %I.%I(%s) returns %s language plpgsql volatile security definer'
        ' set search_path = %I, pg_temp as %L',
        access_schema, entry.name, entry.arguments, entry.result, home,
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
    execute format('revoke execute on all functions in schema %I from public', access_schema);
    for shown in
      select
        c.relname as name,
        string_agg(format('t.%I', a.attname), ', ' order by a.attnum) as columns
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      where c.relnamespace = quote_ident(home)::regnamespace
        and c.relname in (
          'scheduled_actions', 'scheduled_action_schedules', 'scheduled_action_deadlines', 'scheduled_action_facts',
          'scheduled_action_fact_changes', 'webhook_deliveries')
        -- The views omit the claim token, because a role that reads the token could settle the action.
        and a.attname <> 'claim_token'
      group by c.relname
    loop
      execute format(
        'create or replace view %I.%I with (security_barrier) as select %s from %I.%I t%s',
        access_schema, shown.name, shown.columns, home, shown.name,
        case when team is not null then format(' where t.team_id = %L', team) end);
    end loop;
    return access_schema;
  end
  $$;
