-- The unresolved deadlines (of that team, in that status), the nearest first, those due after the cursor.
select
  d.id, d.name, d.team_id, d.target_type, d.target_id, d.status, d.due_at, d.timezone, d.calendar, d.recipients, d.stages,
  d.recurrence, d.series_id, d.occurrence_at, d.anchor_at, d.next_id, d.revision, d.paused_at, d.missed_at, d.closed_at,
  d.closed_by, d.note, d.days_late, d.acknowledged_at, d.acknowledged_by, d.acknowledged_until, d.metadata, d.definition,
  d.history, d.created_by, d.created_at, d.updated_at, scheduled_actions_now()
from scheduled_action_deadlines d
where d.status in ('open', 'missed')
  and d.status = any (%(statuses)s)
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
  and (%(due_to)s::timestamptz is null or d.due_at < %(due_to)s)
  and (%(after_at)s::timestamptz is null or (d.due_at, d.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid))
order by d.due_at, d.id
limit %(limit)s
