-- Returns why a schedule or a deadline cannot have this name; null for a valid name, and for none.
create or replace function scheduled_actions_name_problem(name text) returns text
  language sql immutable parallel safe
  as $$
    select case
      when length(name) not between 1 and 200 then 'name: must have 1 to 200 characters'
      when name ~* '^(urn:uuid:)?\{?[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\}?$'
        then format('name: %s is a UUID and would be read as an id: choose another name', name)
    end;
  $$;
