-- Returns the elements of a deadline's stages that are valid stages.
create or replace function scheduled_actions_readable_stages(stages jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
    select jsonb_path_query_array(stages, 'strict $[*] ? (
      @.key.type() == "string" && @.offset.type() == "string" && @.action_type.type() == "string"
      && (@.kind == "reminder" || @.kind == "escalation" || @.kind == "action" || @.kind == "due" || @.kind == "renewal"))',
      silent => true)
  $$;
