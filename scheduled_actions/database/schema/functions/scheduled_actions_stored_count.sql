-- Returns a count stored in a document, limited to `most`; 0 if the value is not a count.
create or replace function scheduled_actions_stored_count(stored jsonb, most integer default 2147483646) returns integer
  language sql immutable parallel safe
  as $$ select case jsonb_typeof(stored) when 'number' then greatest(0, least(floor(stored::numeric), most)) else 0 end::integer $$;
