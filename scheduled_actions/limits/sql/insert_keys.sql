-- The limit keys have a row.
insert into scheduled_action_limit_keys (team_id, limit_key)
select k.team_id, k.limit_key
from unnest(%(team_ids)s::text[], %(limit_keys)s::text[]) k (team_id, limit_key)
-- In key order, so that two ticks cannot deadlock.
order by k.team_id, k.limit_key
on conflict do nothing
