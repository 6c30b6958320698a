-- Each stage occurrence has an action. A new or pending action is scheduled for the planned instant; an action with any
-- other status is unchanged. Without a payload, the action gets the id of its deadline, the key of its stage and
-- the number of its occurrence.
insert into scheduled_actions as a (
  action_type, payload, team_id, priority, scheduled_at, max_attempts, lock_group, target_type, target_id, created_by,
  deadline_id, deadline_stage
)
select
  p.action_type,
  coalesce(p.payload, jsonb_build_object('deadline_id', p.deadline_id, 'stage', p.key, 'occurrence', p.occurrence)),
  d.team_id, coalesce(p.priority, 0), p.at, p.max_attempts, p.lock_group, d.target_type, d.target_id, d.created_by,
  d.id, p.key || '#' || p.occurrence
from jsonb_to_recordset(%(planned)s::jsonb) as p (
  deadline_id uuid, key text, occurrence integer, action_type text, payload jsonb, at timestamptz, priority smallint,
  max_attempts integer, lock_group text
)
join scheduled_action_deadlines d on d.id = p.deadline_id
on conflict (deadline_id, deadline_stage) where deadline_id is not null do update
set
  scheduled_at = excluded.scheduled_at,
  payload = excluded.payload,
  -- Due actions are parked; the claims find it again at its new time.
  parked_by = case when excluded.scheduled_at <= scheduled_actions_now() then a.parked_by end,
  updated_at = scheduled_actions_now()
where a.status = 'pending' and (a.scheduled_at <> excluded.scheduled_at or a.payload <> excluded.payload)
