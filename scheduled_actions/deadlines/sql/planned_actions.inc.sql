-- The columns of the actions of planned stages, and a select of their values. `plans` has the number of the plan of each
-- deadline, and `plans_of_stages` that of each stage; several deadlines can have the same plan. The arrays of stages are null for
-- an option that no stage has. Without a payload, an action gets the id of its deadline, the key of its stage and the number of
-- its occurrence.
(
  id, action_type, payload, team_id, priority, scheduled_at, max_attempts, lock_group, target_type, target_id, created_by,
  deadline_id, deadline_stage
)
with first as materialized (
  select n.id, ('x' || right(n.id, 8))::bit(32)::bigint as number
  from (select scheduled_actions_uuid7()::text as id) n
)
select
  -- The last 32 bits count up from those of one new id, in the order of the stages: random ids take several times as long.
  (
    left(f.id, 28) || lpad(to_hex((f.number + row_number() over (order by d.id, s.position)) & 4294967295), 8, '0')
  )::uuid,
  s.action_type,
  coalesce(s.payload::jsonb, jsonb_build_object('deadline_id', d.id, 'stage', s.key, 'occurrence', s.occurrence)),
  d.team_id, coalesce(s.priority, 0), s.at, s.max_attempts, s.lock_group, d.target_type, d.target_id, d.created_by,
  d.id, s.key || '#' || s.occurrence
from first f
cross join (
  select d.id, d.team_id, d.target_type, d.target_id, d.created_by, p.plan
  from unnest(%(deadline_ids)s::uuid[], %(plans)s::integer[]) as p (deadline_id, plan)
  join scheduled_action_deadlines d on d.id = p.deadline_id
  -- So that each deadline is read once, not once for each stage.
  offset 0
) d
join unnest(
  %(plans_of_stages)s::integer[], %(keys)s::text[], %(occurrences)s::integer[], %(action_types)s::text[],
  %(instants)s::timestamptz[], %(payloads)s::text[], %(priorities)s::smallint[], %(max_attempts)s::integer[],
  %(lock_groups)s::text[]
) with ordinality as s (
  plan, key, occurrence, action_type, at, payload, priority, max_attempts, lock_group, position
) on s.plan = d.plan
