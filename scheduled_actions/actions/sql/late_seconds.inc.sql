-- How many seconds after it became due the latest attempt of an action started; null if it never started, or if the
-- action was due at an infinite time. An action that was scheduled for the past is due since its creation.
case
  when isfinite(a.scheduled_at) and a.started_at is not null
    then greatest(0, extract(epoch from a.started_at - greatest(a.scheduled_at, a.created_at)))::double precision
end as late_seconds
