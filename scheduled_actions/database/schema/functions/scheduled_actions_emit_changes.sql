-- The trigger of a watched table: an event is scheduled for each changed row that the watch covers. Errors are reported as
-- warnings, so that a write never fails because of an event; only a cancellation and a statement timeout end the statement.
-- Runs with the privileges of the actions' owner. Therefore, the columns of a row are read through
-- scheduled_actions_json_columns, and functions that are called with their values are schema-qualified or take exactly the
-- types of the values.
create or replace function scheduled_actions_emit_changes() returns trigger
  language plpgsql security definer
  as $$
  declare
    watch constant jsonb := tg_argv[0];
    table_name constant text := pg_catalog.format('%I.%I', tg_table_schema, tg_table_name);
    -- The current time, not the start of the statement: a statement that waited for a row of another transaction would
    -- otherwise emit its event with an earlier time than the event of that transaction.
    at constant timestamptz := scheduled_actions_now() operator(pg_catalog.+)
      (pg_catalog.clock_timestamp() operator(pg_catalog.-) pg_catalog.statement_timestamp());
    columns constant text := scheduled_actions_json_columns(tg_relid);
    changes refcursor;
    change jsonb;
    batch jsonb[] := '{}';
  begin
    -- `r.*` refers to the row even if a column is named r.
    case tg_op
      when 'INSERT' then
        open changes for execute pg_catalog.format(
          'select scheduled_actions_row_event($1, null::jsonb, pg_catalog.to_jsonb(r.*), $2, $3)'
          ' from (select %s from new_rows r) r', columns)
          using watch, at, table_name;
      when 'DELETE' then
        open changes for execute pg_catalog.format(
          'select scheduled_actions_row_event($1, pg_catalog.to_jsonb(r.*), null::jsonb, $2, $3)'
          ' from (select %s from old_rows r) r', columns)
          using watch, at, table_name;
      else
        open changes for execute pg_catalog.format(
          'with o as (select pg_catalog.to_jsonb(r.*) as record from (select %1$s from old_rows r) r),'
          ' n as (select pg_catalog.to_jsonb(r.*) as record from (select %1$s from new_rows r) r)'
          ' select scheduled_actions_row_event($1, o.record, n.record, $2, $3)'
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

-- Only the actions' owner may create triggers with this function.
revoke execute on function scheduled_actions_emit_changes() from public;
