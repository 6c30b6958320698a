-- Each later statement that changes the table schedules `entity:created`, `entity:updated` and `entity:deleted` in its
-- own transaction, one event per row. Watching the same entity of the same table again replaces the watch.
create or replace function scheduled_actions_watch(
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
    -- Updates are watched for all verbs, because a changed id deletes one entity and creates another.
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
