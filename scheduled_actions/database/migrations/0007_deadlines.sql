-- Deadlines: a due instant, and what happens before and after it. All that is planned is an action bound to it.

create table scheduled_action_deadlines (
  id uuid primary key default scheduled_actions_uuid7(),
  name text,
  team_id text,
  target_type text not null,
  target_id text not null,
  status text not null default 'open',
  due_at timestamptz not null,
  -- Whose wall clock distances in days are counted on, and which days are business days.
  timezone text not null default 'UTC',
  calendar jsonb,
  recipients jsonb not null default '[]',
  -- Every reminder, level, auto-action and the due instant itself: its distance, its instant, how far it has come.
  stages jsonb not null default '[]',
  recurrence text,
  series_id uuid,
  occurrence_at timestamptz,
  anchor_at timestamptz,
  next_id uuid,
  -- Grows with each change after which notices on their way no longer hold.
  revision integer not null default 0,
  paused_at timestamptz,
  missed_at timestamptz,
  closed_at timestamptz,
  closed_by text,
  note text,
  days_late integer,
  acknowledged_at timestamptz,
  acknowledged_by text,
  acknowledged_until timestamptz,
  metadata jsonb,
  -- What was asked for, as it was: asking for the same again changes nothing.
  definition jsonb not null default '{}',
  history jsonb not null default '[]',
  created_by text,
  created_at timestamptz not null default scheduled_actions_now(),
  updated_at timestamptz not null default scheduled_actions_now(),
  constraint scheduled_action_deadlines_status_is_known check (status in ('open', 'missed', 'completed', 'cancelled')),
  constraint scheduled_action_deadlines_closing_is_whole check ((status in ('completed', 'cancelled')) = (closed_at is not null)),
  constraint scheduled_action_deadlines_only_open_ones_pause check (paused_at is null or status = 'open'),
  constraint scheduled_action_deadlines_stages_are_a_list check (jsonb_typeof(stages) = 'array')
);

-- No occurrence of a series twice.
create unique index scheduled_action_deadlines_occurrence on scheduled_action_deadlines (series_id, occurrence_at)
  where series_id is not null;
-- A name is one unresolved deadline's; those of a series share theirs.
create unique index scheduled_action_deadlines_name on scheduled_action_deadlines (name, coalesce(team_id, ''))
  where name is not null and series_id is null and status in ('open', 'missed');
create index scheduled_action_deadlines_unresolved on scheduled_action_deadlines (due_at)
  where status in ('open', 'missed');
create index scheduled_action_deadlines_target on scheduled_action_deadlines (target_type, target_id);
create index scheduled_action_deadlines_by_name on scheduled_action_deadlines (name) where name is not null;

-- Which occurrence of which stage an action is for: "reminder:60 days before#1". Each is created at most once.
alter table scheduled_actions add column deadline_stage text;
create unique index scheduled_actions_deadline on scheduled_actions (deadline_id, deadline_stage)
  where deadline_id is not null;
