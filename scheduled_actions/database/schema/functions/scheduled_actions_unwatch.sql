-- The triggers of an entity, or of all entities, are removed from a table. Returns the number of entities.
create or replace function scheduled_actions_unwatch(watched regclass, entity text default null) returns integer
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
