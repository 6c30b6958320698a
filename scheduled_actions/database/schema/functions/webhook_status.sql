-- Returns the HTTP status in a result; null if it has none, because a project may use its own handler.
create or replace function webhook_status(result jsonb) returns integer
  language sql immutable parallel safe
  as $$ select case when result ->> 'status' ~ '^[1-9][0-9]{2}$' then (result ->> 'status')::integer end $$;
