-- Returns the elements of a history that are valid entries.
create or replace function scheduled_actions_readable_entries(history jsonb) returns jsonb
  language sql immutable parallel safe
  as $$ select jsonb_path_query_array(history, 'strict $[*] ? (@.type() == "object")', silent => true) $$;
