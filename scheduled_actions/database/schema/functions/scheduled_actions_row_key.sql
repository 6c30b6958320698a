-- Returns the key of a row: the value of its id column, or a list of values for several.
create or replace function scheduled_actions_row_key(record jsonb, id_columns jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
    select case jsonb_array_length(id_columns)
      when 1 then record -> (id_columns ->> 0)
      else (
        select jsonb_agg(record -> c.name order by c.position)
        from jsonb_array_elements_text(id_columns) with ordinality c (name, position))
    end
  $$;
