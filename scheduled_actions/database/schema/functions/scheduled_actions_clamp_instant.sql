-- Returns the nearest instant in the years 1 to 9999, which Python can represent; null for null.
-- Not strict and without least(): so the planner inlines it, and the checks of a row take a tenth of the time.
create or replace function scheduled_actions_clamp_instant(given timestamptz) returns timestamptz
  language sql immutable parallel safe
  as $$
    select case
      when given < '0001-01-01 00:00+00'::timestamptz then '0001-01-01 00:00+00'::timestamptz
      when given > '9999-12-31 23:59:59.999999+00'::timestamptz then '9999-12-31 23:59:59.999999+00'::timestamptz
      else given
    end
  $$;
