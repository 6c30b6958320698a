-- Each occurrence of a stage is planned for its instant; one that waits already is moved there, and one that is at work,
-- or has ended, is left as it is.
insert into scheduled_actions as a (
  action_type, payload, team_id, priority, scheduled_at, max_attempts, lock_group, target_type, target_id, created_by,
  deadline_id, deadline_stage
)
select
  p.action_type, p.payload::jsonb, d.team_id, coalesce(p.priority, 0), p.scheduled_at, p.max_attempts, p.lock_group,
  d.target_type, d.target_id, d.created_by, p.deadline_id, p.stage
from unnest(
  %(deadline_ids)s::uuid[], %(stages)s::text[], %(action_types)s::text[], %(payloads)s::text[],
  %(instants)s::timestamptz[], %(priorities)s::smallint[], %(max_attempts)s::int[], %(lock_groups)s::text[]
) as p (deadline_id, stage, action_type, payload, scheduled_at, priority, max_attempts, lock_group)
join scheduled_action_deadlines d on d.id = p.deadline_id
on conflict (deadline_id, deadline_stage) where deadline_id is not null do update
set scheduled_at = excluded.scheduled_at, payload = excluded.payload, updated_at = scheduled_actions_now()
where a.status = 'pending' and (a.scheduled_at <> excluded.scheduled_at or a.payload <> excluded.payload)
