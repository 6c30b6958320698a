-- The columns of a deadline `d`, in the order of the fields of `Deadline`, and the database's time.
d.id, d.name, d.team_id, d.target_type, d.target_id, d.status, d.due_at, d.timezone, d.calendar, d.recipients, d.stages,
d.recurrence, d.series_id, d.occurrence_at, d.anchor_at, d.next_id, d.revision, d.paused_at, d.missed_at, d.closed_at,
d.closed_by, d.closed_reason, d.days_late, d.acknowledged_at, d.acknowledged_by, d.acknowledged_until, d.metadata,
d.definition, d.history, d.created_by, d.created_at, d.updated_at, scheduled_actions_now()
