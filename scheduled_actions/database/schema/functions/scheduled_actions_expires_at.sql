-- Returns when an action expires that is due at an instant; an interval that is too long, and an instant after the year 9999,
-- which Python cannot represent, are shortened.
create or replace function scheduled_actions_expires_at(due_at timestamptz, expires_in interval) returns timestamptz
  language sql stable parallel safe strict
  as $$
    select scheduled_actions_clamp_instant(
      scheduled_actions_clamp_instant(due_at) + least(expires_in, make_interval(secs => 3155760000)))
  $$;
