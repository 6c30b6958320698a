-- Returns the triggers that emit events. They are read from the catalog, so that dropped and renamed tables need no special
-- handling.
create or replace function scheduled_actions_watch_triggers()
  returns table (watched regclass, trigger_name name, entity text, watch jsonb, enabled boolean)
  language sql stable
  as $$
    select t.tgrelid::regclass, t.tgname, t.watch ->> 'entity', t.watch, t.tgenabled <> 'D'
    from (
      -- The only argument, terminated by a zero byte.
      select g.*, convert_from(substring(g.tgargs for length(g.tgargs) - 1), 'UTF8')::jsonb as watch
      from pg_trigger g
      where g.tgfoid = 'scheduled_actions_emit_changes'::regproc and not g.tgisinternal and g.tgparentid = 0
    ) t
  $$;
