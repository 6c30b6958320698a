-- Actions, and the tables that decide when they run: lock groups, ticks, facts and waits. Names are unqualified: the search
-- path decides the schema. The comment above a column describes its value and when the value changes; null means that the
-- column does not apply.

-- The migrations applied to this database. A row is inserted in the transaction of its migration and never changes.
create table scheduled_action_migrations (
  -- The number that the file name begins with.
  number integer primary key,
  -- The file name without its extension.
  name text not null,
  -- SHA-256 of the file's statements without comments. Null or different: applied by an unreleased build.
  checksum text,
  -- When the migration was applied.
  applied_at timestamptz not null default scheduled_actions_now()
);

-- The SQL functions of the package in this database. `migrate` writes the row when it applies the function's file.
create table scheduled_action_functions (
  -- The function's name, which is also the name of its file.
  name text primary key,
  -- SHA-256 of the file. Changed with each version of the function.
  checksum text not null,
  -- When this version was applied.
  applied_at timestamptz not null default scheduled_actions_now()
);

-- Values that processes share, and settings of the project that SQL functions read.
create table scheduled_action_settings (
  -- The name of the value. Never changes.
  name text primary key,
  -- The first tick of a process and `migrate` write settings of the project; other values are written by the process that
  -- uses them.
  value jsonb not null,
  -- When `value` last changed.
  updated_at timestamptz not null default scheduled_actions_now()
);

-- One unit of work. An insert makes it pending; a claim, a settlement or a command changes it; pruning deletes it.
create table scheduled_actions (
  -- Columns of a fixed width come first, so that rows contain no padding: those that are never null, which Postgres finds at
  -- a fixed offset, then the others, both in descending order of their alignment.
  -- UUID version 7: ids ascend in order of creation. Never changes.
  id uuid primary key default scheduled_actions_uuid7(),
  -- Earliest instant of the next claim; `scheduled_actions_never()` while only a change makes it due. Changed by an edit, a
  -- retry, a snooze, a wait and a wake-up.
  scheduled_at timestamptz not null,
  -- When it was scheduled. Never changes.
  created_at timestamptz not null default scheduled_actions_now(),
  -- When the row last changed.
  updated_at timestamptz not null default scheduled_actions_now(),
  -- Attempts charged. Increased by a settlement or a rescue, but not by a snooze; reset to 0 by a retry.
  attempts integer not null default 0,
  -- Lower numbers run first. Changed by an edit, and with its schedule.
  priority smallint not null default 0,
  -- Whether later actions with its key are merged into it. Becomes false when it is claimed or cancelled, or when a later
  -- action cannot be merged into it, for example after the window; never true again.
  dedup_open boolean not null default false,
  -- Whether the group waits while this action waits for a retry, a snooze or its condition. Changed with its schedule.
  lock_group_blocks boolean not null default false,
  -- The instant of the recurrence rule for which it was planned. Never changes, even if scheduled_at does.
  occurrence_at timestamptz,
  -- The occurrence before this one, for handlers that report "since the last run". Never changes.
  previous_occurrence_at timestamptz,
  -- Start of the latest settled attempt. Set by each settlement of an attempt that was started.
  started_at timestamptz,
  -- When it reached a final status. Set by that settlement or cancellation, cleared by a retry.
  completed_at timestamptz,
  -- When the claim ends unless it is settled. Set and cleared with claim_token.
  lease_expires_at timestamptz,
  -- When its cancellation was requested, while it was pending or running. Cleared by a retry.
  cancel_requested_at timestamptz,
  -- When a worker of its executor took it over. Set while it is processing, cleared by the settlement; null: it is not
  -- processing, or a tick runs it.
  announced_at timestamptz,
  -- No attempt starts from this instant on. Changed by an edit, cleared by a retry.
  expires_at timestamptz,
  -- Attempts allowed; null until the first settlement stores the handler's value. Changed by an edit, and with its schedule.
  max_attempts integer,
  -- Whether another action waits for its end. Once true, it stays true.
  has_waiters boolean not null default false,
  -- Identifies the claim while it is processing: a settlement needs it. Set by the claim, cleared by the settlement.
  claim_token uuid,
  -- The worker that took it over, a row of scheduled_action_workers. Set and cleared with announced_at.
  worker_id uuid,
  -- The schedule that planned it. Never changes.
  schedule_id uuid,
  -- The deadline that planned it. Never changes.
  deadline_id uuid,
  -- The action whose handler scheduled it, or whose end it follows. Never changes, even when that action is pruned.
  scheduled_by uuid,
  -- Changed by a claim (processing), a settlement, a cancellation and a retry.
  status text not null default 'pending',
  -- The action type, which selects the handler. Never changes.
  action_type text not null,
  -- The handler's argument: a JSON object, or an array of them with dedup_mode `append`. Changes while it is pending: by a
  -- later action with the same open key, by an edit, and with its schedule.
  payload jsonb not null default '{}',
  -- The team that owns the row; null: no team. Never changes.
  team_id text,
  -- Why the latest attempt failed, or why it was skipped or cancelled. Cleared when it completes and by a retry.
  error_message text,
  -- The action's own retry policy; null: that of its handler. Changed by an edit, and with its schedule.
  retry jsonb,
  -- The return value of the handler. Set when it completes.
  result jsonb,
  -- The state that the last snooze stored for the next attempt; for a delivery, why it was deferred. Cleared by a retry.
  state jsonb,
  -- Notes of the caller. Changed by an edit, and with its schedule.
  metadata jsonb,
  -- Entries of attempts and of changes by people, oldest first: the first 5 and the last 45. A first attempt that completes
  -- has no entry.
  history jsonb not null default '[]',
  -- The type of its target. Changed with its schedule.
  target_type text,
  -- The id of its target. Changed with its schedule.
  target_id text,
  -- The user that it concerns. Changed with its schedule.
  user_id text,
  -- Who scheduled it. Never changes.
  created_by text,
  -- The stage of its deadline, and the occurrence of that stage: "reminder:60 days before#1". Never changes.
  deadline_stage text,
  -- The dedup key: actions with the same key, type, team and event have the same intent. Never changes.
  dedup_key text,
  -- The event in the payload, which is compared together with the key. Never changes.
  dedup_event text,
  -- Members of a group run one at a time. Changed with its schedule.
  lock_group text,
  -- One to three keys whose limits it counts against while it runs. Set when it is scheduled, or by the claim that applies the
  -- default of its handler.
  limit_keys text[] collate "C",
  -- Why the claims pass over it although it is due: `limit`, while it is in the queue of its first limit key, the id of a
  -- pause, or `queue:NAME`, while it is in the queue of its executor. Set when it is scheduled as due now with limit keys,
  -- or found due; cleared by the claim and when the pause ends.
  parked_by text,
  -- The executor whose worker runs it. Set by the claim, cleared by the settlement.
  executor text,
  -- What happens at expires_at: `skip` or `fail`. Null without expires_at.
  on_expiry text,
  -- The condition that must hold before it runs. `{"wait": …}` waits for the condition; `{"after": [ids], "condition": …}`
  -- waits for actions first. Changed by a merge under an open key, by an edit, and with its schedule, as are the two lists
  -- of follow-ups.
  condition jsonb,
  -- The state of the wait for `condition`: its start, the checks made, the next check, the unmet part. Written by each check,
  -- cleared by a retry and when the condition changes.
  waiting jsonb,
  -- The follow-ups scheduled when it completes: a list of elements of schedule_actions.
  on_success jsonb,
  -- The follow-ups scheduled when it fails permanently, in the same form.
  on_failure jsonb,
  constraint scheduled_actions_status_is_known check (
    status in ('pending', 'processing', 'completed', 'failed', 'cancelled', 'skipped', 'no_action')
  ),
  constraint scheduled_actions_claim_is_whole check (
    (status = 'processing') = (claim_token is not null) and (claim_token is null) = (lease_expires_at is null)
  ),
  constraint scheduled_actions_history_is_a_list check (jsonb_typeof(history) = 'array'),
  -- Metadata is copied to every follow-up and read with every page. The binary form is never much smaller than half of the
  -- text, so only large values are converted to text to measure them.
  constraint scheduled_actions_metadata_is_bounded check (
    pg_column_size(metadata) <= 32768 or octet_length(metadata::text) <= 131072
  )
)
with (
  -- Every action is updated twice and deleted once, so vacuum runs often: after a number of rows, not after a share of them.
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);

-- Claims scan these two in order; the id makes the order total, so that a keyset never reads a row twice.
create index scheduled_actions_claim_free on scheduled_actions (priority, scheduled_at, id)
  where status = 'pending' and lock_group is null and parked_by is null;
create index scheduled_actions_claim_grouped on scheduled_actions (priority, scheduled_at, id)
  where status = 'pending' and lock_group is not null and parked_by is null;
-- The due actions of each limit key, in the order of their claim; each action stands at its first key.
create index scheduled_actions_limit_queue
  on scheduled_actions ((limit_keys[1]), coalesce(team_id, ''), priority, scheduled_at, id)
  where status = 'pending' and parked_by = 'limit';
-- The parked actions, in the order in which they return to the claims; lists and counts read them here.
create index scheduled_actions_parked on scheduled_actions (parked_by, priority, scheduled_at, id)
  where status = 'pending' and parked_by is not null;
create index scheduled_actions_expiry on scheduled_actions (expires_at)
  where status = 'pending' and expires_at is not null;
-- Finds the first due member of a group, by priority and then by due time, regardless of where the scan found the group.
create index scheduled_actions_lock_group on scheduled_actions (lock_group, coalesce(team_id, ''), priority, scheduled_at, id)
  where status = 'pending' and lock_group is not null;
create index scheduled_actions_lease on scheduled_actions (lease_expires_at)
  where status = 'processing';
-- Counts the actions that the workers of an executor run.
create index scheduled_actions_executor on scheduled_actions (executor, announced_at)
  where status = 'processing' and executor is not null;
create unique index scheduled_actions_dedup
  on scheduled_actions (dedup_key, action_type, coalesce(team_id, ''), coalesce(dedup_event, ''))
  where dedup_open;
-- A schedule has at most one action for each occurrence.
create unique index scheduled_actions_occurrence on scheduled_actions (schedule_id, occurrence_at)
  where schedule_id is not null;
-- Occurrences that wait for their condition: if another one becomes due during the wait, one may have to be skipped.
create index scheduled_actions_waiting_occurrence on scheduled_actions (schedule_id)
  where schedule_id is not null and waiting is not null and status in ('pending', 'processing');
-- A deadline has at most one action for each occurrence of a stage.
create unique index scheduled_actions_deadline on scheduled_actions (deadline_id, deadline_stage)
  where deadline_id is not null;
create index scheduled_actions_prune on scheduled_actions (status, completed_at)
  where completed_at is not null;
create index scheduled_actions_no_action on scheduled_actions (action_type)
  where status = 'no_action';
-- For lists and counts of a team's actions by status, the newest first. Ids are never null: "nulls last" only keeps the
-- planner from using the primary key, which has the same order but contains the actions of all teams.
create index scheduled_actions_team on scheduled_actions (team_id, status, id desc nulls last)
  where team_id is not null;
-- For lists of the actions that an action scheduled, of a user and of a target, the newest first, as for those of a team.
create index scheduled_actions_scheduled_by on scheduled_actions (scheduled_by, id desc nulls last)
  where scheduled_by is not null;
create index scheduled_actions_user on scheduled_actions (user_id, id desc nulls last)
  where user_id is not null;
create index scheduled_actions_target on scheduled_actions (target_type, target_id, id desc nulls last)
  where target_id is not null;
-- For the calendar of one user. Most actions have no user or have ended, and are not in this index.
create index scheduled_actions_of_user on scheduled_actions (user_id, scheduled_at, id)
  where status = 'pending' and user_id is not null;
-- A page of deliveries is read without scanning other actions, which are not in this index.
create index scheduled_actions_deliveries on scheduled_actions (id) where action_type = 'webhook:send';
-- The pending deliveries of one endpoint are found without scanning those of other endpoints.
create index scheduled_actions_deliveries_waiting on scheduled_actions ((payload ->> 'endpoint'), scheduled_at)
  where status = 'pending' and action_type = 'webhook:send';

-- The lock groups with a running member. Inserted before the claim of the member, deleted by its settlement, release or rescue.
create table scheduled_action_holds (
  -- The team of the group; '' for none.
  team_id text not null,
  -- The group.
  lock_group text not null,
  -- The running member.
  action_id uuid not null,
  -- When the hold was inserted.
  acquired_at timestamptz not null default scheduled_actions_now(),
  -- Until when the group is held after an attempt that timed out and whose handler has not returned yet.
  busy_until timestamptz,
  primary key (team_id, lock_group)
);
create index scheduled_action_holds_action on scheduled_action_holds (action_id);

-- The limits of keys: the section [limits] of the settings. `migrate` and the first tick of a process replace the rows if
-- the section has changed.
create table scheduled_action_limit_rules (
  -- A key, or a prefix of keys followed by `*`.
  pattern text primary key,
  -- The pattern without the star.
  prefix text not null generated always as (rtrim(pattern, '*')) stored,
  -- Whether the pattern is a key.
  is_exact boolean not null generated always as (right(pattern, 1) <> '*') stored,
  -- Maximum number of actions with the key that run at the same time; null: any number.
  at_once integer,
  -- Seconds between two starts at the rate; null: any rate.
  interval_seconds double precision,
  -- Maximum number of actions with the key that start at once after a pause; null without a rate.
  burst integer,
  -- Whether the actions of all teams count together. Otherwise each team has its own limits.
  across_teams boolean not null,
  constraint scheduled_action_limit_rules_are_valid check (
    at_once > 0 and interval_seconds > 0 and burst > 0 and (interval_seconds is null) = (burst is null)
  )
);

-- The limit keys in use. A claim locks the rows of its keys before it counts their slots. Inserted by a tick before its first
-- claim from the key; deleted when the key has not been used for an hour.
create table scheduled_action_limit_keys (
  -- The team; '' for none, and for keys whose limit applies across teams.
  team_id text not null,
  -- The key.
  limit_key text collate "C" not null,
  -- When the actions claimed so far would all have started at the rate of the key: the theoretical arrival time of the
  -- generic cell rate algorithm. Advanced by each claim, moved back for actions that were not started.
  full_until timestamptz not null default '-infinity',
  -- When the row was inserted or last locked by pruning.
  used_at timestamptz not null default scheduled_actions_now(),
  primary key (team_id, limit_key)
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
create index scheduled_action_limit_keys_used on scheduled_action_limit_keys (used_at);
-- For the list of keys; the collation keeps the keys with a prefix together, as it does in the queues.
create index scheduled_action_limit_keys_list on scheduled_action_limit_keys (limit_key, team_id);

-- The slots in use: one row for each key of a running action. Inserted by the claim, which holds the lock of the key's row;
-- deleted by the settlement, release or rescue.
create table scheduled_action_limit_slots (
  -- As in scheduled_action_limit_keys.
  team_id text not null,
  -- As in scheduled_action_limit_keys.
  limit_key text collate "C" not null,
  -- The running action.
  action_id uuid not null,
  -- Its claim.
  claim_token uuid not null,
  -- When the slot was taken.
  acquired_at timestamptz not null default scheduled_actions_now(),
  -- Until when the slot is in use after an attempt that timed out and whose handler has not returned yet.
  busy_until timestamptz,
  primary key (action_id, claim_token, limit_key)
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
create index scheduled_action_limit_slots_key on scheduled_action_limit_slots (team_id, limit_key);
create index scheduled_action_limit_slots_acquired on scheduled_action_limit_slots (acquired_at);

-- What claims pass over. Inserted by scheduled_actions_pause; ended by scheduled_actions_resume or at ends_at; deleted by a tick
-- when no action is parked by it any more.
create table scheduled_action_pauses (
  -- UUID version 7. Never changes.
  id uuid primary key default scheduled_actions_uuid7(),
  -- What is paused: `action_type`, `team`, `lock_group` or `limit`. Never changes.
  kind text not null,
  -- The action type, team, lock group or limit key. Never changes.
  name text not null,
  -- The team whose actions are paused; null: actions of all teams. Never changes.
  team_id text,
  -- Why it is paused. Changed by a later pause of the same subject, as are paused_by and ends_at.
  note text,
  -- Who paused it.
  paused_by text,
  -- When it was paused. Changed when it is paused again after its end.
  paused_at timestamptz not null default scheduled_actions_now(),
  -- When the pause ends; null: when it is resumed, which sets the instant.
  ends_at timestamptz,
  constraint scheduled_action_pauses_kind_is_known check (kind in ('action_type', 'team', 'lock_group', 'limit'))
);
create unique index scheduled_action_pauses_subject on scheduled_action_pauses (kind, name, coalesce(team_id, ''));

-- The executors: the section [executors] of the settings. The first tick of a process writes its executors; `migrate` also
-- removes the others. Claims of ticks pass over the action types of all executors, so that a process with older settings
-- does not run them.
create table scheduled_action_executors (
  -- The name of the executor.
  name text primary key,
  -- Its action types, and prefixes of types followed by `*`. Empty: it was removed, and its queue has not returned yet.
  types text[] not null,
  -- The same as patterns of LIKE.
  type_patterns text[] not null,
  -- How its actions reach the workers: `postgres` or the carrier of the tickets.
  carrier text not null default 'postgres',
  -- Whether the actions in its queue return to the claims. Nothing is parked in the queue meanwhile. Set when types are
  -- removed from it; cleared by a tick or worker when its queue is empty, which deletes the row if it has no types.
  is_returning boolean not null default false
);

-- A process that runs the actions of an executor. Inserted when it starts, updated when it takes actions over and at least
-- once a minute, deleted by pruning a day after it was last seen.
create table scheduled_action_workers (
  -- UUID version 4, generated by the process. Never changes.
  id uuid primary key,
  -- The executor. Never changes.
  executor text not null,
  -- Host and process id. Never changes.
  name text not null,
  -- Number of actions that it runs at the same time. Never changes.
  concurrency integer not null,
  -- When it started. Never changes.
  started_at timestamptz not null default scheduled_actions_now(),
  -- When it last wrote this row.
  seen_at timestamptz not null default scheduled_actions_now(),
  -- When it last took an action over; null: never.
  taken_at timestamptz,
  -- When it ended; null: it is running or was killed.
  finished_at timestamptz,
  -- The actions that it has taken over and not settled yet: if it is killed, any of them may be the cause. Overwritten
  -- whenever it takes actions over.
  running uuid[] not null default '{}'
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
create index scheduled_action_workers_executor on scheduled_action_workers (executor, seen_at);
-- Finds whether any worker has to be notified of new actions.
create index scheduled_action_workers_open on scheduled_action_workers (seen_at) where finished_at is null;

-- A tick. Inserted when it starts, updated while it runs and when it ends, deleted by pruning.
create table scheduled_action_ticks (
  -- UUID version 7, generated by the process. Never changes.
  id uuid primary key,
  -- When it started. Never changes.
  started_at timestamptz not null,
  -- When it ended or was found lost; null: it is running. Cleared when it continues because a ping arrived at its end.
  finished_at timestamptz,
  -- When it counts as lost unless it has ended; the leases of its actions end at the same instant. Never changes.
  lease_expires_at timestamptz not null,
  -- The actions whose handlers were started and that are not settled yet: rescue charges exactly these. Overwritten by
  -- each announcement.
  running uuid[] not null default '{}',
  -- The caller of the tick: a cron service, a command or a server. Never changes.
  caller text,
  -- `finished`, `hung_up` (the caller closed the connection) or `lost`. Set and cleared with finished_at.
  outcome text,
  -- The counts of its report, by name. Set when it ends.
  counts jsonb,
  -- Its time limits in seconds, by name. Never changes.
  budget jsonb,
  -- The number of announcements written to `running`: one that arrives late, from a backend whose connection was lost,
  -- changes nothing.
  announcement bigint not null default 0,
  constraint scheduled_action_ticks_are_readable check (
    isfinite(started_at)
    and isfinite(finished_at)
    and isfinite(lease_expires_at)
    and jsonb_typeof(counts) = 'object'
    and jsonb_typeof(budget) = 'object'
  )
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
-- Ids are too random to be compressed.
alter table scheduled_action_ticks alter column running set storage external;
create index scheduled_action_ticks_started on scheduled_action_ticks (started_at);
create index scheduled_action_ticks_open on scheduled_action_ticks (lease_expires_at) where finished_at is null;

-- The counters of `/metrics`. Ticks add to them; pruning does not change them.
create table scheduled_action_metrics (
  -- The name of the metric.
  metric text not null,
  -- An action type or an endpoint.
  subject text not null,
  -- An outcome, the bound of a bucket, or `sum`.
  part text not null,
  -- The sum so far.
  value double precision not null,
  primary key (metric, subject, part)
)
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);

-- The latest value of each fact. `report_fact` inserts or updates it; deleting a fact deletes it.
create table scheduled_action_facts (
  -- UUID version 7: orders pages. Never changes.
  id uuid not null default scheduled_actions_uuid7(),
  -- The team; '' for none. Never changes.
  team_id text not null default '',
  -- The type of the fact's target. Never changes.
  target_type text not null,
  -- The id of the fact's target. Never changes.
  target_id text not null,
  -- The name of the fact. Never changes.
  name text not null,
  -- The latest value.
  value jsonb not null,
  -- Who reported it last.
  reported_by text,
  -- When `value` last changed.
  changed_at timestamptz not null default scheduled_actions_now(),
  -- When it was last reported, even with the same value.
  reported_at timestamptz not null default scheduled_actions_now(),
  primary key (team_id, target_type, target_id, name)
)
with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
create unique index scheduled_action_facts_id on scheduled_action_facts (id);
-- For lists of facts by team, by target or by name, the newest first.
create index scheduled_action_facts_team on scheduled_action_facts (team_id, id);
create index scheduled_action_facts_target on scheduled_action_facts (target_type, target_id, id);
create index scheduled_action_facts_name on scheduled_action_facts (name, id);

-- The latest 1,000 values of each fact. Rows never change; a change deletes the oldest rows above that number.
create table scheduled_action_fact_changes (
  -- UUID version 7: ids ascend in order of the changes.
  id uuid primary key default scheduled_actions_uuid7(),
  -- The team of the fact; '' for none.
  team_id text not null,
  -- The type of the fact's target.
  target_type text not null,
  -- The id of the fact's target.
  target_id text not null,
  -- The name of the fact.
  name text not null,
  -- The value from then on; null: the fact was deleted.
  value jsonb,
  -- Who reported it.
  reported_by text,
  -- When it was reported.
  changed_at timestamptz not null default scheduled_actions_now()
);
create index scheduled_action_fact_changes_of on scheduled_action_fact_changes (team_id, target_type, target_id, name, id);

-- The topics that actions wait for. Inserted before the condition is checked, deleted when the wait ends or by maintenance.
create table scheduled_action_waits (
  -- A fact (scheduled_actions_fact_topic), or the id of an action or a deadline.
  topic uuid not null,
  -- The action that waits.
  action_id uuid not null,
  -- The topic changed after the last check: a check that is running and finds the condition unmet must be repeated. Set
  -- by the wake-up, cleared by the next check.
  is_woken boolean not null default false,
  -- When maintenance, which checks once an hour, last found the action waiting.
  checked_at timestamptz not null default scheduled_actions_now(),
  primary key (topic, action_id)
)
with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);
create index scheduled_action_waits_action on scheduled_action_waits (action_id);
create index scheduled_action_waits_checked on scheduled_action_waits (checked_at);

-- Topics that have changed. Inserted in the transaction of the change, which therefore waits for no lock; deleted by a tick
-- after that transaction has committed, when every wait that missed the change is visible. Rows never change.
create table scheduled_action_wakes (
  -- In order of insertion.
  id bigint generated always as identity primary key,
  -- The topic, as in scheduled_action_waits.
  topic uuid not null,
  -- Only the actions with larger ids are still to be woken; null: all.
  after_id uuid
)
with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);

-- The rows of queries that became actions (for_each). Inserted with the action, deleted after `until`. Rows never change.
create table scheduled_action_for_each (
  -- The team; '' for none.
  team_id text not null default '',
  -- The name of the query.
  name text not null,
  -- The key of the row in the query's result.
  key text not null,
  -- The row cannot become another action until this instant.
  until timestamptz not null,
  -- When it became an action.
  created_at timestamptz not null default scheduled_actions_now(),
  primary key (team_id, name, key)
)
with (autovacuum_vacuum_scale_factor = 0.05);
create index scheduled_action_for_each_until on scheduled_action_for_each (until) where isfinite(until);

create trigger scheduled_actions_notify_listeners
  after insert on scheduled_actions
  for each statement execute function scheduled_actions_notify_listeners();
create trigger scheduled_action_wakes_tell_listeners
  after insert on scheduled_action_wakes
  for each statement execute function scheduled_actions_notify_listeners();
create trigger scheduled_actions_wake_after
  after update of status on scheduled_actions
  for each row
  when (
    new.has_waiters
    and (
      new.status in ('completed', 'failed', 'cancelled', 'skipped')
      -- A retry: others may wait while this action has failed.
      or old.status in ('failed', 'cancelled', 'skipped')
    )
  )
  execute function scheduled_actions_wake_after();
