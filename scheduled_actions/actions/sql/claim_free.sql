-- Due actions without a lock group are claimed by this tick, or parked in the queue of their first limit key.
select *
from scheduled_actions_claim_free(
  wanted => %(wanted)s,
  after_priority => %(after_priority)s::smallint,
  after_at => %(after_at)s::timestamptz,
  after_id => %(after_id)s::uuid,
  excluded => %(excluded)s::text[],
  with_series => %(with_series)s,
  token => %(token)s,
  lease_ends_at => %(lease_expires_at)s
)
