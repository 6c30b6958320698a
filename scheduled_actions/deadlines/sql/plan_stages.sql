-- Each stage occurrence has an action. A new or pending action is scheduled for the planned instant; an action with any
-- other status is unchanged.
insert into scheduled_actions as a
-- include: deadlines/planned_actions
on conflict (deadline_id, deadline_stage) where deadline_id is not null do update
set
  scheduled_at = excluded.scheduled_at,
  payload = excluded.payload,
  -- Due actions are parked; the claims find it again at its new time.
  parked_by = case
    when excluded.scheduled_at <= scheduled_actions_now() and a.parked_by not like 'queue:%%' then a.parked_by
  end,
  updated_at = scheduled_actions_now()
where a.status = 'pending' and (a.scheduled_at <> excluded.scheduled_at or a.payload <> excluded.payload)
