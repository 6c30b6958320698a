-- A role may use the access schema of a team (null: of all teams): a `scheduler` may schedule, emit events and
-- report facts, a `reader` may read actions, schedules, deadlines, facts and deliveries. Returns the schema's name.
create or replace function scheduled_actions_grant(kind text, role_name text, team text) returns text
  language plpgsql volatile
  as $$
  declare
    access_schema text;
  begin
    if not exists (select from pg_roles r where r.rolname = role_name) then
      perform scheduled_actions_refuse(format('role %I does not exist: create it with `create role %1$I login`', role_name));
    elsif length(team) not between 1 and 255 then
      perform scheduled_actions_refuse('team_id: must have 1 to 255 characters');
    end if;
    access_schema := scheduled_actions_create_access_schema(team);
    execute format('grant usage on schema %I to %I', access_schema, role_name);
    -- Default privileges apply to the objects that replace the current ones when the access schema is updated.
    if kind = 'scheduler' then
      execute format('grant execute on all functions in schema %I to %I', access_schema, role_name);
      execute format('alter default privileges in schema %I grant execute on functions to %I', access_schema, role_name);
    else
      -- A view reads tables with the privileges of its owner, but calls functions with those of the role that queries it.
      execute format('grant usage on schema %I to %I', current_schema(), role_name);
      execute format('grant select on all tables in schema %I to %I', access_schema, role_name);
      execute format('alter default privileges in schema %I grant select on tables to %I', access_schema, role_name);
    end if;
    return access_schema;
  end
  $$;
