-- The columns of the actions of planned stages, and a select of their values; the arrays are parallel, and null for an option
-- that no stage has. Without a payload, an action gets the id of its deadline, the key of its stage and the number of its
-- occurrence.
(
  action_type, payload, team_id, priority, scheduled_at, max_attempts, lock_group, target_type, target_id, created_by,
  deadline_id, deadline_stage
)
select
  p.action_type,
  coalesce(p.payload::jsonb, jsonb_build_object('deadline_id', p.deadline_id, 'stage', p.key, 'occurrence', p.occurrence)),
  d.team_id, coalesce(p.priority, 0), p.at, p.max_attempts, p.lock_group, d.target_type, d.target_id, d.created_by,
  d.id, p.key || '#' || p.occurrence
from unnest(
  %(deadline_ids)s::uuid[], %(keys)s::text[], %(occurrences)s::integer[], %(action_types)s::text[],
  %(instants)s::timestamptz[], %(payloads)s::text[], %(priorities)s::smallint[], %(max_attempts)s::integer[],
  %(lock_groups)s::text[]
) with ordinality as p (
  deadline_id, key, occurrence, action_type, at, payload, priority, max_attempts, lock_group, position
)
join scheduled_action_deadlines d on d.id = p.deadline_id
-- So that ids ascend in the order of the stages.
order by p.position
