-- Returns a follow-up, or a list of them, as a list; null for none.
create or replace function scheduled_actions_follow_up_list(given jsonb) returns jsonb
  language sql immutable parallel safe
  as $$ select case jsonb_typeof(given) when 'object' then jsonb_build_array(given) else nullif(given, '[]') end $$;
