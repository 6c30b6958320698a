-- Returns the limit keys of an element of schedule_actions: a JSON string or a list of strings. Any other value becomes an
-- empty array, which is refused. It is strict, so that it costs actions without limits nothing.
create or replace function scheduled_actions_limit_keys(given jsonb) returns text[]
  language sql immutable strict parallel safe
  as $$
    select case jsonb_typeof(given)
      when 'string' then array[given #>> '{}']
      when 'array' then case
        when jsonb_path_exists(given, 'strict $[*] ? (@.type() <> "string")') then '{}'
        else array(select jsonb_array_elements_text(given))
      end
      when 'null' then null
      else '{}'
    end
  $$;
