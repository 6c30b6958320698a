-- Returns when the rate of a limit key with queued actions allows its next start; null if all allow one now.
select min(l.opens_at)
from (
  select distinct a.limit_keys, a.team_id
  from scheduled_actions a
  where a.status = 'pending' and a.parked_by = 'limit'
) q
cross join lateral unnest(q.limit_keys) k (limit_key)
cross join lateral scheduled_actions_limit(k.limit_key, q.team_id) l
where l.opens_at > scheduled_actions_now() and l.pause_id is null
