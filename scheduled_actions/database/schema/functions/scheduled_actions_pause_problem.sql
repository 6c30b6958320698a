-- Returns the name of an invalid argument of a pause's subject, and the expected values; null if all are valid.
create or replace function scheduled_actions_pause_problem(kind text, name text, team_id text) returns text
  language sql immutable parallel safe
  as $$
    select case
      when kind is null or kind not in ('action_type', 'team', 'lock_group', 'limit')
        then format('kind: %L is not action_type, team, lock_group or limit', left(kind, 80))
      when kind = 'action_type' and (name is null or length(name) > 200 or name !~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$')
        then format('name: %L is not an action type: 1 to 200 letters, digits, ".", "_", ":" or "-", starting with a letter or digit', left(name, 80))
      when name is null or length(name) not between 1 and 255
        then format('name: a %s must have 1 to 255 characters', replace(kind, '_', ' '))
      when kind = 'limit' and name ~ '[\u0001-\u001f\u007f-\u009f]' then 'name: a limit key must not have control characters'
      when kind = 'limit' and name like '%*'
        then format('name: %L is a pattern; pause each of its limit keys, such as %L', left(name, 80), left(rtrim(name, '*'), 80) || 'acme')
      when kind = 'team' and team_id is not null
        then 'team_id: must be null for the kind team, where the name is the team'
      when length(team_id) not between 1 and 255 then 'team_id: must have 1 to 255 characters'
    end
  $$;
