-- A role may use the schema of a team (null: of none in particular): a `scheduler` may schedule, emit events and report facts,
-- a `reader` may read actions, schedules, deadlines, facts and deliveries. Returns the schema's name.
create or replace function scheduled_actions_grant(kind text, role_name text, team text) returns text
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
