-- Returns the nearest instant in the years 1 to 9999, which Python can represent.
create or replace function scheduled_actions_clamp_instant(given timestamptz) returns timestamptz
  language sql immutable parallel safe strict
  as $$ select least(greatest(given, '0001-01-01 00:00+00'::timestamptz), '9999-12-31 23:59:59.999999+00'::timestamptz) $$;
