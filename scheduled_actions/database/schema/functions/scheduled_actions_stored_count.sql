-- Returns a count that is stored in a document, at most `most`; 0 for anything but a count.
create or replace function scheduled_actions_stored_count(stored jsonb, most integer default 2147483646) returns integer
  language sql immutable parallel safe
  as $$ select case jsonb_typeof(stored) when 'number' then greatest(0, least(floor(stored::numeric), most)) else 0 end::integer $$;
