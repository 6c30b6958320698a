-- One deadline by id, or the one of that name (within the team) that is unresolved and due first.
select
  d.id, d.name, d.team_id, d.target_type, d.target_id, d.status, d.due_at, d.timezone, d.calendar, d.recipients, d.stages,
  d.recurrence, d.series_id, d.occurrence_at, d.anchor_at, d.next_id, d.revision, d.paused_at, d.missed_at, d.closed_at,
  d.closed_by, d.note, d.days_late, d.acknowledged_at, d.acknowledged_by, d.acknowledged_until, d.metadata, d.definition,
  d.history, d.created_by, d.created_at, d.updated_at, scheduled_actions_now()
from scheduled_action_deadlines d
where (d.id = %(id)s::uuid or d.name = %(name)s::text and coalesce(d.team_id, '') = coalesce(%(name_team_id)s::text, ''))
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
order by
  d.status in ('open', 'missed') desc,
  case when d.status in ('open', 'missed') then d.due_at end,
  d.id desc
limit 1
