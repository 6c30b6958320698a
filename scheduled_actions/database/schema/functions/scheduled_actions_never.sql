-- Returns the `scheduled_at` of actions that only a change makes due. Finite, and not in the last days that Python can
-- represent, so that clients can read it and convert it to any time zone.
create or replace function scheduled_actions_never() returns timestamptz
  language sql immutable parallel safe
  as $$ select '9999-01-01 00:00+00'::timestamptz $$;
