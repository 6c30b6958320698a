-- Returns how many actions of each limit key may be claimed now.
select w.team_id, w.limit_key, l.room
from unnest(%(team_ids)s::text[], %(limit_keys)s::text[]) w (team_id, limit_key)
cross join lateral scheduled_actions_limit(w.limit_key, w.team_id) l
