-- The limit keys that no other transaction has locked are locked until the transaction ends. Returns them. Their slots must be
-- counted by a later statement: this one does not see what another transaction committed while this one waited or skipped.
select k.team_id, k.limit_key
from unnest(%(team_ids)s::text[], %(limit_keys)s::text[]) w (team_id, limit_key)
join scheduled_action_limit_keys k on k.team_id = w.team_id and k.limit_key = w.limit_key
order by k.team_id, k.limit_key
for update of k skip locked
