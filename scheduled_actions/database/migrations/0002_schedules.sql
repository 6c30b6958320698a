-- Schedules: the lasting definition of a recurring action. Each live one has exactly one planned occurrence that was
-- never claimed, an ordinary action named by `next_action_id`; a rolling one has none while its occurrence is at work.

create table scheduled_action_schedules (
  id uuid primary key default scheduled_actions_uuid7(),
  name text,
  action_type text not null,
  payload jsonb not null default '{}',
  team_id text,
  recurrence text not null,
  kind text not null,
  timezone text not null default 'UTC',
  -- Where intervals count from, and the DTSTART of a rule that brings none.
  anchor_at timestamptz not null,
  recurrence_type text not null default 'fixed',
  misfire text not null default 'fire_once',
  misfire_grace_seconds double precision not null default 300,
  catch_up_limit integer not null default 100,
  catch_up_seconds double precision not null default 604800,
  overlap text not null default 'skip',
  skip jsonb,
  jitter_seconds double precision not null default 0,
  until timestamptz,
  -- Executions still to come; null: no end.
  remaining integer,
  pause_after_failures integer,
  consecutive_failures integer not null default 0,
  priority smallint not null default 0,
  max_attempts integer,
  retry jsonb,
  lock_group text,
  lock_group_blocks boolean not null default false,
  target_type text,
  target_id text,
  user_id text,
  metadata jsonb,
  status text not null default 'active',
  -- Why it is paused or has ended.
  status_note text,
  status_by text,
  status_at timestamptz,
  next_action_id uuid,
  next_occurrence_at timestamptz,
  last_action_id uuid,
  last_occurrence_at timestamptz,
  -- Occurrences that ran, that a skip policy left out, and that were missed and dropped.
  executions bigint not null default 0,
  skipped bigint not null default 0,
  missed bigint not null default 0,
  -- What was asked for, as it was: asking for the same again changes nothing.
  definition jsonb not null default '{}',
  -- Kept in step with a declaration in the code.
  is_declared boolean not null default false,
  created_by text,
  created_at timestamptz not null default scheduled_actions_now(),
  updated_at timestamptz not null default scheduled_actions_now(),
  constraint scheduled_action_schedules_status_is_known check (status in ('active', 'paused', 'ended')),
  constraint scheduled_action_schedules_recurrence_type_is_known check (recurrence_type in ('fixed', 'rolling')),
  constraint scheduled_action_schedules_misfire_is_known check (misfire in ('fire_once', 'skip', 'catch_up')),
  constraint scheduled_action_schedules_overlap_is_known check (overlap in ('skip', 'queue', 'allow')),
  constraint scheduled_action_schedules_remaining_is_a_count check (remaining >= 0),
  constraint scheduled_action_schedules_only_live_ones_plan check (status = 'active' or next_action_id is null)
);

create unique index scheduled_action_schedules_name on scheduled_action_schedules (name, coalesce(team_id, ''))
  where name is not null;
create unique index scheduled_action_schedules_next on scheduled_action_schedules (next_action_id)
  where next_action_id is not null;

-- The occurrence before this one, for handlers that report "since the last time".
alter table scheduled_actions add column previous_occurrence_at timestamptz;
