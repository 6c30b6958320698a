-- Returns the latest ticks and their callers.
select
  extract(epoch from scheduled_actions_now() - t.started_at)::double precision,
  extract(epoch from t.finished_at - t.started_at)::double precision,
  t.caller,
  t.outcome = 'lost' or t.finished_at is null and t.lease_expires_at < scheduled_actions_now(),
  t.finished_at is null and t.lease_expires_at >= scheduled_actions_now(),
  t.counts -> 'hung_up_seconds',
  t.counts -> 'joined',
  t.counts ->> 'heartbeat'
from scheduled_action_ticks t
order by t.started_at desc
limit %(limit)s
