-- The lock groups belong to these actions, unless another transaction holds them. Returns the groups taken.
insert into scheduled_action_holds (team_id, lock_group, action_id)
select w.team_id, w.lock_group, w.action_id
from unnest(%(team_ids)s::text[], %(lock_groups)s::text[], %(action_ids)s::uuid[]) w (team_id, lock_group, action_id)
order by w.team_id, w.lock_group
on conflict do nothing
returning action_id, team_id, lock_group
