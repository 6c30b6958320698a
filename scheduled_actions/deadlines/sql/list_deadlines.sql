-- The newest deadlines that match every filter given, those with ids below the cursor.
select
  d.id, d.name, d.team_id, d.target_type, d.target_id, d.status, d.due_at, d.timezone, d.calendar, d.recipients, d.stages,
  d.recurrence, d.series_id, d.occurrence_at, d.anchor_at, d.next_id, d.revision, d.paused_at, d.missed_at, d.closed_at,
  d.closed_by, d.note, d.days_late, d.acknowledged_at, d.acknowledged_by, d.acknowledged_until, d.metadata, d.definition,
  d.history, d.created_by, d.created_at, d.updated_at, scheduled_actions_now()
from scheduled_action_deadlines d
where (%(before)s::uuid is null or d.id < %(before)s)
  and (%(status)s::text is null or d.status = %(status)s)
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
  and (%(target_type)s::text is null or d.target_type = %(target_type)s)
  and (%(target_id)s::text is null or d.target_id = %(target_id)s)
  and (%(name)s::text is null or d.name = %(name)s)
  and (%(series_id)s::uuid is null or d.series_id = %(series_id)s)
  and (%(due_from)s::timestamptz is null or d.due_at >= %(due_from)s)
  and (%(due_to)s::timestamptz is null or d.due_at < %(due_to)s)
  and (not %(is_overdue)s
       or d.status in ('open', 'missed') and d.due_at <= scheduled_actions_now() and d.paused_at is null)
order by d.id desc
limit %(limit)s
