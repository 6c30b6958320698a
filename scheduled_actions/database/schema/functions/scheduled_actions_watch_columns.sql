-- Returns the columns of a table in order.
create or replace function scheduled_actions_watch_columns(watched regclass) returns text[]
  language sql stable
  as $$
    select array_agg(a.attname::text order by a.attnum)
    from pg_attribute a where a.attrelid = watched and a.attnum > 0 and not a.attisdropped
  $$;
