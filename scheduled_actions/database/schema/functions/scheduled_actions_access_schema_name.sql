-- Returns the name of the access schema of a team (null: of all teams).
create or replace function scheduled_actions_access_schema_name(team text) returns text
  language sql immutable
  as $$
    select case
      when team is null then 'scheduled_actions_api'
      when team ~ '^[a-z][a-z0-9_]{0,39}$' then 'scheduled_actions_team_' || team
      -- Other ids are too long for a name, or would need quotes.
      else 'scheduled_actions_team_' || left(md5(team), 16) || '_'
    end
  $$;
