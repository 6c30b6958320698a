-- The rates of limit keys are as before claims whose handlers were not started. Keys locked by another transaction are left
-- as they are: their next actions start later than necessary.
with given_back as (
  select l.scope as team_id, g.limit_key, max(l.interval_seconds) as interval_seconds, count(*) as starts
  from unnest(%(team_ids)s::text[], %(limit_keys)s::text[]) g (team_id, limit_key)
  cross join lateral scheduled_actions_limit(g.limit_key, g.team_id) l
  where l.interval_seconds is not null
  group by l.scope, g.limit_key
),
locked as materialized (
  select k.team_id, k.limit_key, g.starts * g.interval_seconds as seconds
  from given_back g
  join scheduled_action_limit_keys k on k.team_id = g.team_id and k.limit_key = g.limit_key
  order by k.team_id, k.limit_key
  for update of k skip locked
)
update scheduled_action_limit_keys k
set full_until = k.full_until - make_interval(secs => l.seconds)
from locked l
where k.team_id = l.team_id and k.limit_key = l.limit_key
