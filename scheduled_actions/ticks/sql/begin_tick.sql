-- The tick has a row. Returns its start and the end of its leases. Repeating this after a lost connection changes nothing.
-- The commit does not wait for the disk: the first announcement, which needs the row, waits for both.
with begun as (
  insert into scheduled_action_ticks as t (id, started_at, lease_expires_at, caller, budget)
  values (
    %(tick_id)s, scheduled_actions_now(), scheduled_actions_now() + make_interval(secs => %(lease_seconds)s), %(caller)s,
    %(budget)s::jsonb
  )
  on conflict (id) do update set caller = t.caller
  returning t.started_at, t.lease_expires_at
)
select b.started_at, b.lease_expires_at
from begun b
cross join set_config('synchronous_commit', 'off', true)
