-- The deadlines are stored. A deadline whose name or occurrence is taken is not stored and returns no row. Lists of stages that
-- several deadlines have in common are given once, in `documents`; `stages` and `asked` are positions in that list: of a list of
-- stages, and of an object that is added to the `definition`, a JSON object as text.
insert into scheduled_action_deadlines (
  id, name, team_id, target_type, target_id, status, due_at, timezone, calendar, recipients, stages, recurrence,
  series_id, occurrence_at, anchor_at, metadata, definition, history, created_by
)
select
  n.id, n.name, n.team_id, n.target_type, n.target_id, 'open', n.due_at, n.timezone, n.calendar, n.recipients,
  %(documents)s::jsonb -> n.stages, n.recurrence, n.series_id, n.occurrence_at, n.anchor_at, n.metadata,
  case when n.asked is null then n.definition::jsonb
    else n.definition::jsonb || (%(documents)s::jsonb -> n.asked) end,
  n.history, n.created_by
from jsonb_to_recordset(%(deadlines)s::jsonb) as n (
  id uuid, name text, team_id text, target_type text, target_id text, due_at timestamptz, timezone text, calendar jsonb,
  recipients jsonb, stages integer, recurrence text, series_id uuid, occurrence_at timestamptz, anchor_at timestamptz,
  metadata jsonb, definition text, asked integer, history jsonb, created_by text
)
on conflict do nothing
returning id
