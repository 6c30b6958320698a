-- Returns those keys of a JSON object that are in the list.
create or replace function scheduled_actions_select_keys(record jsonb, keys jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
    select coalesce(jsonb_object_agg(k.name, record -> k.name), '{}')
    from jsonb_array_elements_text(keys) k (name)
    where record ? k.name
  $$;
