-- Returns the name of an invalid argument among the limit keys and the expiry of an action, and the expected values; null if
-- all are valid.
create or replace function scheduled_actions_limits_problem(
  limit_keys text[], scheduled_at timestamptz, expires_at timestamptz, expires_in interval, on_expiry text
) returns text
  language sql stable parallel safe
  as $$
    select case
      when cardinality(limit_keys) not between 1 and 3 or array_ndims(limit_keys) <> 1
        then format('limit: must be a key, or a list of one to three keys, not %s keys', cardinality(limit_keys))
      when exists (
          select from unnest(limit_keys) k (limit_key)
          where k.limit_key is null or length(k.limit_key) not between 1 and 255 or k.limit_key ~ '[\u0001-\u001f\u007f-\u009f]')
        then 'limit: each key must have 1 to 255 characters, and no control characters'
      when cardinality(limit_keys) <> (select count(distinct k.limit_key) from unnest(limit_keys) k (limit_key))
        then 'limit: the keys must differ from each other'
      when expires_at is not null and expires_in is not null
        then 'expires_in: cannot be given together with expires_at'
      when not isfinite(expires_at) then format('expires_at: must be a finite instant, not %s', expires_at)
      when expires_in <= interval '0' or expires_in > make_interval(secs => 3155760000)
        then format('expires_in: must be above 0 and at most a hundred years, not %s', expires_in)
      when expires_at <= scheduled_at
        then format(
          'expires_at: %s must be after scheduled_at (%s), so that the action can start', expires_at, scheduled_at)
      when expires_at <> scheduled_actions_clamp_instant(expires_at)
        then format('expires_at: %s is not in the years 1 to 9999', expires_at)
      when on_expiry is null or on_expiry not in ('skip', 'fail') then format('on_expiry: %L is not skip or fail', on_expiry)
      when on_expiry = 'fail' and expires_at is null and expires_in is null
        then 'on_expiry: has no effect without expires_at or expires_in'
    end
  $$;
