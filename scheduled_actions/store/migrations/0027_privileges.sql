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
    raise warning 'scheduled_actions: no event tells of this % of %: % (%)', lower(tg_op), table_name, sqlerrm, sqlstate;
    return null;
  end
  $$;
