-- Returns the latest ticks before the cursor, each with the time since the previous tick started.
select
  t.id, t.started_at, t.finished_at, t.lease_expires_at, t.caller, t.outcome, t.counts - 'metrics_buffer', t.budget,
  cardinality(t.running),
  extract(epoch from t.finished_at - t.started_at)::double precision,
  extract(epoch from t.started_at - (
    select b.started_at
    from scheduled_action_ticks b
    where b.started_at < t.started_at
    order by b.started_at desc
    limit 1))::double precision
from scheduled_action_ticks t
where (
  %(before_started_at)s::timestamptz is null
  or t.started_at <= %(before_started_at)s and (t.started_at, t.id) < (%(before_started_at)s, %(before_id)s::uuid)
)
order by t.started_at desc, t.id desc
limit %(limit)s
