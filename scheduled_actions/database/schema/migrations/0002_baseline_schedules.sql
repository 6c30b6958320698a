-- Schedules and deadlines, which plan actions. The comment above a column describes its value and when the value changes.

-- The stored definition of a recurring action. An active schedule has exactly one planned occurrence that was never
-- claimed, an ordinary action named by `next_action_id`; a rolling schedule has none while its occurrence runs. Only a person
-- deletes it.
create table scheduled_action_schedules (
  -- UUID version 7: ids ascend in order of creation. Never changes.
  id uuid primary key default scheduled_actions_uuid7(),
  -- Unique within the team; null: the schedule has no name. Changed by an edit.
  name text,
  -- The type of every occurrence. Never changes.
  action_type text not null,
  -- The payload of every occurrence. Changed by an edit, as are all columns down to `on_failure` whose comments name no other
  -- change; an edit also changes the planned occurrence.
  payload jsonb not null default '{}',
  -- The team that owns the row; null: no team. Never changes.
  team_id text,
  -- The text of the rule.
  recurrence text not null,
  -- `interval`, `cron`, `rrule`, `business_day` or `custom`; derived from the rule.
  kind text not null,
  -- The time zone of the rule.
  timezone text not null default 'UTC',
  -- The start from which intervals are counted, and the DTSTART of a rule without one.
  anchor_at timestamptz not null,
  -- `fixed`: by the rule alone; `rolling`: from the end of the previous occurrence.
  recurrence_type text not null default 'fixed',
  -- What happens to missed occurrences: `fire_once`, `skip` or `catch_up`.
  misfire text not null default 'fire_once',
  -- An occurrence that is later than this counts as missed.
  misfire_grace_seconds double precision not null default 300,
  -- Maximum number of missed occurrences to catch up on.
  catch_up_limit integer not null default 100,
  -- Maximum age of missed occurrences to catch up on.
  catch_up_seconds double precision not null default 604800,
  -- What happens when the previous occurrence is still running: `skip`, `queue` or `allow`.
  overlap text not null default 'skip',
  -- Whether an occurrence is skipped unless the previous one has completed.
  requires_previous boolean not null default false,
  -- The rules for skipping occurrences: an object.
  skip jsonb,
  -- Maximum delay of an occurrence; each one is delayed by a different part of it.
  jitter_seconds double precision not null default 0,
  -- No occurrence is planned after this instant; null: no end.
  until timestamptz,
  -- Number of executions left; null: no limit. Decreased by each execution, changed by an edit.
  remaining integer,
  -- Final failures in a row that pause the schedule; null: never.
  pause_after_failures integer,
  -- Final failures in a row so far. Increased by a failed occurrence, reset to 0 by a completed one.
  consecutive_failures integer not null default 0,
  -- The columns from here to `on_failure` are those of every occurrence, as in scheduled_actions. Its priority.
  priority smallint not null default 0,
  -- Its maximum number of attempts.
  max_attempts integer,
  -- Its retry policy.
  retry jsonb,
  -- Its lock group.
  lock_group text,
  -- Whether the group waits while it waits for a retry, a snooze or its condition.
  lock_group_blocks boolean not null default false,
  -- Its limit keys.
  limit_keys text[],
  -- Seconds from its due time until it expires; null: it does not expire.
  expires_seconds double precision,
  -- What happens when it expires: `skip` or `fail`. Null without expires_seconds.
  on_expiry text,
  -- The type of its target.
  target_type text,
  -- The id of its target.
  target_id text,
  -- The user that it concerns.
  user_id text,
  -- Notes of the caller.
  metadata jsonb,
  -- Its condition.
  condition jsonb,
  -- The follow-ups scheduled when it completes.
  on_success jsonb,
  -- The follow-ups scheduled when it fails permanently.
  on_failure jsonb,
  -- `active`, `paused` or `ended`. Changed by a person, by failures in a row, and when the rule has no further occurrence.
  status text not null default 'active',
  -- Why it is paused or has ended. Changed with `status`.
  status_reason text,
  -- Who paused or ended it. Changed with `status`.
  status_by text,
  -- When it got its current status. Changed with `status`.
  status_at timestamptz,
  -- The planned occurrence; for a rolling schedule also the running one. Changed with each occurrence.
  next_action_id uuid,
  -- The instant of the rule for which it is planned. Changed with `next_action_id`.
  next_occurrence_at timestamptz,
  -- The previous occurrence. Changed with each occurrence.
  last_action_id uuid,
  -- The instant of the rule for which it was planned. Changed with `last_action_id`.
  last_occurrence_at timestamptz,
  -- Number of occurrences that were started. Never decreases.
  executions bigint not null default 0,
  -- Number of occurrences that a skip rule or an overlap skipped. Never decreases.
  skipped bigint not null default 0,
  -- Number of occurrences that were missed because no tick ran, and were dropped. Never decreases.
  missed bigint not null default 0,
  -- The arguments as given: repeating the same call changes nothing. Changed by an edit.
  definition jsonb not null default '{}',
  -- The arguments of a call of the SQL function schedule_recurring_action that is not applied yet, or was refused; null: none.
  -- Set by a call, cleared when it has been applied.
  requested jsonb,
  -- Whether the schedule is kept equal to a declaration in the code. Changed by the sync of declarations.
  is_declared boolean not null default false,
  -- Who created it. Never changes.
  created_by text,
  -- When it was created. Never changes.
  created_at timestamptz not null default scheduled_actions_now(),
  -- When the row last changed.
  updated_at timestamptz not null default scheduled_actions_now(),
  constraint scheduled_action_schedules_status_is_known check (status in ('active', 'paused', 'ended')),
  constraint scheduled_action_schedules_recurrence_type_is_known check (recurrence_type in ('fixed', 'rolling')),
  constraint scheduled_action_schedules_misfire_is_known check (misfire in ('fire_once', 'skip', 'catch_up')),
  constraint scheduled_action_schedules_overlap_is_known check (overlap in ('skip', 'queue', 'allow')),
  constraint scheduled_action_schedules_remaining_is_a_count check (remaining >= 0),
  constraint scheduled_action_schedules_only_live_ones_plan check (status = 'active' or next_action_id is null),
  -- SQL cannot write values that no reader can use.
  constraint scheduled_action_schedules_numbers_are_in_range check (
    jitter_seconds between 0 and 31622400
    and misfire_grace_seconds between 0 and 31622400
    and catch_up_seconds between 0 and 31622400
    and catch_up_limit between 1 and 10000
    and pause_after_failures >= 1
    and consecutive_failures >= 0
    and executions between 0 and 1000000000000000
    and skipped between 0 and 1000000000000000
    and missed between 0 and 1000000000000000
    and max_attempts between 1 and 1000
    and expires_seconds > 0
    and expires_seconds <= 3155760000
    and cardinality(limit_keys) between 1 and 3
  ),
  constraint scheduled_action_schedules_expiry_is_whole check (
    (expires_seconds is null) = (on_expiry is null) and on_expiry in ('skip', 'fail')
  ),
  constraint scheduled_action_schedules_instants_are_in_the_calendar check (
    anchor_at = scheduled_actions_clamp_instant(anchor_at)
    and until = scheduled_actions_clamp_instant(until)
    and status_at = scheduled_actions_clamp_instant(status_at)
    and next_occurrence_at = scheduled_actions_clamp_instant(next_occurrence_at)
    and last_occurrence_at = scheduled_actions_clamp_instant(last_occurrence_at)
    and created_at = scheduled_actions_clamp_instant(created_at)
    and updated_at = scheduled_actions_clamp_instant(updated_at)
  ),
  constraint scheduled_action_schedules_documents_are_shaped check (
    jsonb_typeof(skip) = 'object'
    and jsonb_typeof(retry) in ('object', 'array')
    and jsonb_typeof(metadata) = 'object'
    and octet_length(metadata::text) <= 131072
    and jsonb_typeof(definition) = 'object'
    and jsonb_typeof(condition) = 'object'
    and jsonb_typeof(on_success) in ('object', 'array')
    and jsonb_typeof(on_failure) in ('object', 'array')
  )
)
-- Every occurrence updates its schedule. No index contains the updated columns, and the page of the row has free space, so
-- the update writes one page and no index.
with (fillfactor = 50);

create unique index scheduled_action_schedules_name on scheduled_action_schedules (name, coalesce(team_id, ''))
  where name is not null;
-- Finds a schedule that was created by the same call without a name.
create index scheduled_action_schedules_unnamed on scheduled_action_schedules using hash (definition)
  where name is null;

-- A due instant, and the stages before and after it. Each planned stage is an action with its `deadline_id`. Changed by a
-- person and by the actions of its stages; a closed deadline is deleted by pruning.
create table scheduled_action_deadlines (
  -- UUID version 7: ids ascend in order of creation. Never changes.
  id uuid primary key default scheduled_actions_uuid7(),
  -- Unique among the unresolved deadlines of a team; deadlines of a series share one name. Never changes.
  name text,
  -- The team that owns the row; null: no team. Never changes.
  team_id text,
  -- The type of its target. Changed by an edit.
  target_type text not null,
  -- The id of its target. Changed by an edit.
  target_id text not null,
  -- `open`, `missed`, `completed` or `cancelled`. Changes at the due instant and by a person.
  status text not null default 'open',
  -- The due instant. Moved by an edit, and at the end of a pause.
  due_at timestamptz not null,
  -- The time zone in which distances in days are counted. Changed by an edit.
  timezone text not null default 'UTC',
  -- Business days and business hours; null: every day, 24 hours. Changed by an edit.
  calendar jsonb,
  -- The people who are responsible and receive the reminders. Changed by an edit.
  recipients jsonb not null default '[]',
  -- Every reminder, escalation level and automatic action, and the due instant: the distance, instant and state of each.
  -- Changed with each stage that begins, and when the deadline is moved, paused or closed.
  stages jsonb not null default '[]',
  -- The rule of its series; null: none. Changed by an edit.
  recurrence text,
  -- The first deadline of its series. Never changes.
  series_id uuid,
  -- The instant of the rule for which it was created. Never changes, even if due_at does.
  occurrence_at timestamptz,
  -- The start from which the rule counts. Changed with the rule.
  anchor_at timestamptz,
  -- The next deadline of the series. Set when that deadline is created.
  next_id uuid,
  -- Increased by each change that makes notifications in progress obsolete.
  revision integer not null default 0,
  -- When it was paused; null: it is not paused. Set by a pause, cleared at its end.
  paused_at timestamptz,
  -- When it was found unresolved at its due instant. Cleared when it is moved.
  missed_at timestamptz,
  -- When it was completed or cancelled. Set once.
  closed_at timestamptz,
  -- Who closed it. Set with `closed_at`.
  closed_by text,
  -- The reason that this person gave. Set with `closed_at`.
  closed_reason text,
  -- Number of days, rounded up, that a completed deadline was late; 0: on time. Set with `closed_at`.
  days_late integer,
  -- When it was acknowledged. Cleared when the deadline is moved or reassigned.
  acknowledged_at timestamptz,
  -- Who acknowledged it. Set and cleared with `acknowledged_at`.
  acknowledged_by text,
  -- Until when reminders are muted; null: until the deadline is moved, reassigned or closed. Set and cleared with
  -- `acknowledged_at`.
  acknowledged_until timestamptz,
  -- Notes of the caller. Changed by an edit.
  metadata jsonb,
  -- The arguments as given: repeating the same call changes nothing. Changed by an edit.
  definition jsonb not null default '{}',
  -- The arguments of a call of the SQL function set_deadline that is not applied yet, or was refused; null: none. Set by a
  -- call, cleared when it has been applied.
  requested jsonb,
  -- The events of the deadline: the first 5 and the last 45 entries.
  history jsonb not null default '[]',
  -- Who created it. Never changes.
  created_by text,
  -- When it was created. Never changes.
  created_at timestamptz not null default scheduled_actions_now(),
  -- When the row last changed.
  updated_at timestamptz not null default scheduled_actions_now(),
  constraint scheduled_action_deadlines_status_is_known check (status in ('open', 'missed', 'completed', 'cancelled')),
  constraint scheduled_action_deadlines_closing_is_whole check ((status in ('completed', 'cancelled')) = (closed_at is not null)),
  constraint scheduled_action_deadlines_only_open_ones_pause check (paused_at is null or status = 'open'),
  constraint scheduled_action_deadlines_stages_are_a_list check (jsonb_typeof(stages) = 'array'),
  -- SQL cannot write values that no reader can use.
  constraint scheduled_action_deadlines_numbers_are_in_range check (
    revision between 0 and 1000000000
    and days_late >= 0
  ),
  constraint scheduled_action_deadlines_instants_are_in_the_calendar check (
    due_at = scheduled_actions_clamp_instant(due_at)
    and occurrence_at = scheduled_actions_clamp_instant(occurrence_at)
    and anchor_at = scheduled_actions_clamp_instant(anchor_at)
    and paused_at = scheduled_actions_clamp_instant(paused_at)
    and missed_at = scheduled_actions_clamp_instant(missed_at)
    and closed_at = scheduled_actions_clamp_instant(closed_at)
    and acknowledged_at = scheduled_actions_clamp_instant(acknowledged_at)
    and acknowledged_until = scheduled_actions_clamp_instant(acknowledged_until)
    and created_at = scheduled_actions_clamp_instant(created_at)
    and updated_at = scheduled_actions_clamp_instant(updated_at)
  ),
  constraint scheduled_action_deadlines_documents_are_shaped check (
    jsonb_typeof(recipients) = 'array'
    and jsonb_typeof(calendar) = 'object'
    and jsonb_typeof(metadata) = 'object'
    and octet_length(metadata::text) <= 131072
    and jsonb_typeof(definition) = 'object'
    and history = scheduled_actions_readable_entries(history)
    and scheduled_actions_stages_are_readable(stages)
  )
);

-- A series has at most one deadline for each occurrence.
create unique index scheduled_action_deadlines_occurrence on scheduled_action_deadlines (series_id, occurrence_at)
  where series_id is not null;
-- The name of an unresolved deadline is unique in its team, except that the deadlines of a series share their name.
create unique index scheduled_action_deadlines_name on scheduled_action_deadlines (name, coalesce(team_id, ''))
  where name is not null and series_id is null and status in ('open', 'missed');
create index scheduled_action_deadlines_unresolved on scheduled_action_deadlines (due_at)
  where status in ('open', 'missed');
create index scheduled_action_deadlines_target on scheduled_action_deadlines (target_type, target_id);
create index scheduled_action_deadlines_by_name on scheduled_action_deadlines (name) where name is not null;
-- Pruning deletes the deadlines that were closed first.
create index scheduled_action_deadlines_closed on scheduled_action_deadlines (closed_at) where closed_at is not null;
create index scheduled_action_deadlines_requested on scheduled_action_deadlines (id) where requested is not null;
-- For the calendar and the lists of one user.
create index scheduled_action_deadlines_recipients on scheduled_action_deadlines using gin (recipients jsonb_path_ops);
-- For lists of deadlines: the newest first, by team or by status; and by due instant, also within a team.
create index scheduled_action_deadlines_team on scheduled_action_deadlines (team_id, id) where team_id is not null;
create index scheduled_action_deadlines_status on scheduled_action_deadlines (status, id);
create index scheduled_action_deadlines_due on scheduled_action_deadlines (due_at);
create index scheduled_action_deadlines_near on scheduled_action_deadlines (team_id, due_at, id)
  where status in ('open', 'missed') and team_id is not null;

create trigger scheduled_actions_wake_after_deadline
  after update of status on scheduled_action_deadlines
  for each row
  when (new.status is distinct from old.status)
  execute function scheduled_actions_wake_after_deadline();

-- The proof of each notification of a deadline: its recipient, channel and time, and whether it was accepted or refused.
-- Rows never change, and are deleted only with their deadline.
create table scheduled_action_deadline_notices (
  -- UUID version 7: ids ascend in order of sending.
  id uuid primary key default scheduled_actions_uuid7(),
  -- The deadline.
  deadline_id uuid not null references scheduled_action_deadlines (id) on delete cascade,
  -- The stage and its occurrence, as in `deadline_stage` of its action: "reminder:60 days before#1".
  stage text not null,
  -- The `notification:send` action that sent it; the action of a digest is the same for several deadlines.
  action_id uuid not null,
  -- The subject of the message.
  subject text not null,
  -- The person; null: an address without a person.
  recipient text,
  -- The id of the person; without an id, a hash of the first channel.
  person_key text not null,
  -- The channel.
  channel text not null,
  -- The address on the channel.
  address text not null,
  -- The channel's id of the message.
  message_id text,
  -- Why the channel refused it; null: it was accepted.
  problem text,
  -- When the channel answered.
  sent_at timestamptz not null default scheduled_actions_now()
);
create index scheduled_action_deadline_notices_of on scheduled_action_deadline_notices (deadline_id, id);
