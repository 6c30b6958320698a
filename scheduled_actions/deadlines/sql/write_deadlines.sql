-- The deadlines have the given changes, and their histories the given entries; other columns are unchanged.
update scheduled_action_deadlines d
set
  status = coalesce(c.changes ->> 'status', d.status),
  due_at = coalesce((c.changes ->> 'due_at')::timestamptz, d.due_at),
  timezone = coalesce(c.changes ->> 'timezone', d.timezone),
  calendar = case when c.changes ? 'calendar' then nullif(c.changes -> 'calendar', 'null') else d.calendar end,
  target_type = coalesce(c.changes ->> 'target_type', d.target_type),
  target_id = coalesce(c.changes ->> 'target_id', d.target_id),
  recipients = coalesce(c.changes -> 'recipients', d.recipients),
  stages = coalesce(c.changes -> 'stages', d.stages),
  recurrence = coalesce(c.changes ->> 'recurrence', d.recurrence),
  anchor_at = coalesce((c.changes ->> 'anchor_at')::timestamptz, d.anchor_at),
  next_id = case when c.changes ? 'next_id' then (c.changes ->> 'next_id')::uuid else d.next_id end,
  revision = d.revision + coalesce((c.changes ->> 'revisions')::int, 0),
  paused_at = case when c.changes ? 'paused_at' then (c.changes ->> 'paused_at')::timestamptz else d.paused_at end,
  missed_at = case when c.changes ? 'missed_at' then (c.changes ->> 'missed_at')::timestamptz else d.missed_at end,
  closed_at = case when c.changes ? 'closed_at' then (c.changes ->> 'closed_at')::timestamptz else d.closed_at end,
  closed_by = case when c.changes ? 'closed_by' then c.changes ->> 'closed_by' else d.closed_by end,
  closed_reason = case when c.changes ? 'closed_reason' then c.changes ->> 'closed_reason' else d.closed_reason end,
  days_late = case when c.changes ? 'days_late' then (c.changes ->> 'days_late')::int else d.days_late end,
  acknowledged_at = case when c.changes ? 'acknowledged_at'
    then (c.changes ->> 'acknowledged_at')::timestamptz else d.acknowledged_at end,
  acknowledged_by = case when c.changes ? 'acknowledged_by' then c.changes ->> 'acknowledged_by' else d.acknowledged_by end,
  acknowledged_until = case when c.changes ? 'acknowledged_until'
    then (c.changes ->> 'acknowledged_until')::timestamptz else d.acknowledged_until end,
  metadata = case when c.changes ? 'metadata' then nullif(c.changes -> 'metadata', 'null') else d.metadata end,
  definition = coalesce(c.changes -> 'definition', d.definition),
  history = scheduled_actions_append_history(d.history, c.changes -> 'entry'),
  updated_at = scheduled_actions_now()
from jsonb_to_recordset(%(changes)s::jsonb) as c (id uuid, changes jsonb)
where d.id = c.id
