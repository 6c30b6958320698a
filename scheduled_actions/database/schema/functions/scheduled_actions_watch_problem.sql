-- Returns the first problem of a watch, and the expected values; null if the watch is valid.
create or replace function scheduled_actions_watch_problem(
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
        then format('%s is not a table: only tables can be watched', watched)
      when watched in (
        select c.oid from pg_class c
        where c.relname in (
          'scheduled_actions', 'scheduled_action_holds', 'scheduled_action_ticks', 'scheduled_action_settings',
          'scheduled_action_migrations', 'webhook_endpoints', 'webhook_endpoint_states', 'webhook_event_types')
      ) then format('%s is a table of Scheduled Actions and cannot be watched: its events would cause further events', watched)
      when entity is null or length(entity) not between 1 and 190 or entity ~ '[:[:cntrl:]]'
        then format('entity: %L must have 1 to 190 printable characters and no colon', left(entity, 80))
      when verbs is null or verbs = '{}' or not verbs <@ '{created,updated,deleted}'
        then format('on: "%s" is not a list of created, updated or deleted', array_to_string(verbs, ','))
      when dedup_window is null or dedup_window not between 0 and 31622400
        then format('dedup_window: %s is not a number of seconds between 0 and a year', dedup_window)
      when unknown is not null
        then format('%s has no column %I; it has %s', watched, unknown, array_to_string(there, ', '))
      when coalesce(id_columns, '{}') = '{}'
        then format('%s has no primary key: name its id column, which must be unique and not null', watched)
      when not exists (
        select from pg_index i
        where i.indrelid = watched and i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
          and array(
            select a.attname::text from pg_attribute a
            where a.attrelid = watched and a.attnum = any (i.indkey[0:i.indnkeyatts - 1])
          ) <@ id_columns
      ) or exists (
        select from pg_attribute a where a.attrelid = watched and a.attname = any (id_columns) and not a.attnotnull
      ) then format('id column: %s of %s must be unique and not null', array_to_string(id_columns, ', '), watched)
    end;
  end
  $$;
