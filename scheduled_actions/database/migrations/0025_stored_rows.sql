-- Values that no function of ours stores are refused by the tables, and read leniently where a table cannot refuse them: the
-- table of actions takes what it took, so that a row from before never keeps a tick from writing it.

-- One attempt of a delivery as its history tells it. The words of the error are those of the handler.
create or replace function webhook_attempt(entry jsonb) returns jsonb
  language sql stable
  as $$
    select jsonb_build_object(
      'attempt', entry -> 'attempt',
      'at', entry -> 'started_at',
      'status', said.parts[1]::integer,
      'duration_ms', round(extract(epoch from said.ended_at - said.started_at) * 1000),
      'answer', case when said.parts[1] not like '3%' then said.parts[2] end,
      'error', entry -> 'error')
    from (
      select
        regexp_match(entry ->> 'error', '^(?:DeliveryFailed: )?endpoint "[^"]*" answered (\d{3})(?:: (.*))?$') as parts,
        case when isfinite(e.started_at) then e.started_at end as started_at,
        case when isfinite(e.ended_at) then e.ended_at end as ended_at
      from (
        select
          scheduled_actions_stored_instant(entry ->> 'started_at') as started_at,
          scheduled_actions_stored_instant(entry ->> 'ended_at') as ended_at
      ) e
    ) said
  $$;

-- Returns the nearest instant that a reader can show: the years 1 to 9999.
create or replace function scheduled_actions_in_calendar(given timestamptz) returns timestamptz
  language sql immutable parallel safe strict
  as $$ select least(greatest(given, '0001-01-01 00:00+00'::timestamptz), '9999-12-31 23:59:59.999999+00'::timestamptz) $$;

-- Returns those elements of a deadline's stages that name a stage.
create or replace function scheduled_actions_readable_stages(stages jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
    select jsonb_path_query_array(stages, 'strict $[*] ? (
      @.key.type() == "string" && @.offset.type() == "string" && @.action_type.type() == "string"
      && (@.kind == "reminder" || @.kind == "escalation" || @.kind == "action" || @.kind == "due" || @.kind == "renewal"))',
      silent => true)
  $$;

-- Returns those elements of a history that are entries.
create or replace function scheduled_actions_readable_entries(history jsonb) returns jsonb
  language sql immutable parallel safe
  as $$ select jsonb_path_query_array(history, 'strict $[*] ? (@.type() == "object")', silent => true) $$;

-- A row from before gets the nearest value that can be used: a later change of it would be refused for what it held.
update scheduled_action_schedules s
set
  jitter_seconds = case when s.jitter_seconds between 0 and 31622400 then s.jitter_seconds else 0 end,
  misfire_grace_seconds = case when s.misfire_grace_seconds between 0 and 31622400 then s.misfire_grace_seconds else 300 end,
  catch_up_seconds = case when s.catch_up_seconds between 0 and 31622400 then s.catch_up_seconds else 604800 end,
  catch_up_limit = least(greatest(s.catch_up_limit, 1), 10000),
  pause_after_failures = case when s.pause_after_failures is not null then greatest(s.pause_after_failures, 1) end,
  consecutive_failures = greatest(s.consecutive_failures, 0),
  executions = least(greatest(s.executions, 0), 1000000000000000),
  skipped = least(greatest(s.skipped, 0), 1000000000000000),
  missed = least(greatest(s.missed, 0), 1000000000000000),
  max_attempts = case when s.max_attempts is not null then least(greatest(s.max_attempts, 1), 1000) end,
  anchor_at = scheduled_actions_in_calendar(s.anchor_at),
  until = scheduled_actions_in_calendar(s.until),
  status_at = scheduled_actions_in_calendar(s.status_at),
  next_occurrence_at = scheduled_actions_in_calendar(s.next_occurrence_at),
  last_occurrence_at = scheduled_actions_in_calendar(s.last_occurrence_at),
  created_at = scheduled_actions_in_calendar(s.created_at),
  updated_at = scheduled_actions_in_calendar(s.updated_at),
  skip = case when jsonb_typeof(s.skip) = 'object' then s.skip end,
  retry = case when jsonb_typeof(s.retry) in ('object', 'array') then s.retry end,
  metadata = case when jsonb_typeof(s.metadata) = 'object' and octet_length(s.metadata::text) <= 131072 then s.metadata end,
  definition = case when jsonb_typeof(s.definition) = 'object' then s.definition else '{}' end,
  condition = case when jsonb_typeof(s.condition) = 'object' then s.condition end,
  on_success = case when jsonb_typeof(s.on_success) in ('object', 'array') then s.on_success end,
  on_failure = case when jsonb_typeof(s.on_failure) in ('object', 'array') then s.on_failure end
where not (
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
  and anchor_at = scheduled_actions_in_calendar(anchor_at)
  and until = scheduled_actions_in_calendar(until)
  and status_at = scheduled_actions_in_calendar(status_at)
  and next_occurrence_at = scheduled_actions_in_calendar(next_occurrence_at)
  and last_occurrence_at = scheduled_actions_in_calendar(last_occurrence_at)
  and created_at = scheduled_actions_in_calendar(created_at)
  and updated_at = scheduled_actions_in_calendar(updated_at)
  and jsonb_typeof(skip) = 'object'
  and jsonb_typeof(retry) in ('object', 'array')
  and jsonb_typeof(metadata) = 'object'
  and octet_length(metadata::text) <= 131072
  and jsonb_typeof(definition) = 'object'
  and jsonb_typeof(condition) = 'object'
  and jsonb_typeof(on_success) in ('object', 'array')
  and jsonb_typeof(on_failure) in ('object', 'array')
);

alter table scheduled_action_schedules
  add constraint scheduled_action_schedules_numbers_are_in_range check (
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
  ) not valid,
  add constraint scheduled_action_schedules_instants_are_in_the_calendar check (
    anchor_at = scheduled_actions_in_calendar(anchor_at)
    and until = scheduled_actions_in_calendar(until)
    and status_at = scheduled_actions_in_calendar(status_at)
    and next_occurrence_at = scheduled_actions_in_calendar(next_occurrence_at)
    and last_occurrence_at = scheduled_actions_in_calendar(last_occurrence_at)
    and created_at = scheduled_actions_in_calendar(created_at)
    and updated_at = scheduled_actions_in_calendar(updated_at)
  ) not valid,
  add constraint scheduled_action_schedules_documents_are_shaped check (
    jsonb_typeof(skip) = 'object'
    and jsonb_typeof(retry) in ('object', 'array')
    and jsonb_typeof(metadata) = 'object'
    and octet_length(metadata::text) <= 131072
    and jsonb_typeof(definition) = 'object'
    and jsonb_typeof(condition) = 'object'
    and jsonb_typeof(on_success) in ('object', 'array')
    and jsonb_typeof(on_failure) in ('object', 'array')
  ) not valid;

-- Stages that are none, which no reader could show, are left out.
update scheduled_action_deadlines d
set
  due_at = scheduled_actions_in_calendar(d.due_at),
  occurrence_at = scheduled_actions_in_calendar(d.occurrence_at),
  anchor_at = scheduled_actions_in_calendar(d.anchor_at),
  paused_at = scheduled_actions_in_calendar(d.paused_at),
  missed_at = scheduled_actions_in_calendar(d.missed_at),
  closed_at = scheduled_actions_in_calendar(d.closed_at),
  acknowledged_at = scheduled_actions_in_calendar(d.acknowledged_at),
  acknowledged_until = scheduled_actions_in_calendar(d.acknowledged_until),
  created_at = scheduled_actions_in_calendar(d.created_at),
  updated_at = scheduled_actions_in_calendar(d.updated_at),
  revision = least(greatest(d.revision, 0), 1000000000),
  days_late = case when d.days_late is not null then greatest(d.days_late, 0) end,
  recipients = case when jsonb_typeof(d.recipients) = 'array' then d.recipients else '[]' end,
  history = scheduled_actions_readable_entries(d.history),
  calendar = case when jsonb_typeof(d.calendar) = 'object' then d.calendar end,
  metadata = case when jsonb_typeof(d.metadata) = 'object' and octet_length(d.metadata::text) <= 131072 then d.metadata end,
  definition = case when jsonb_typeof(d.definition) = 'object' then d.definition else '{}' end,
  stages = scheduled_actions_readable_stages(d.stages)
where not (
  revision between 0 and 1000000000
  and days_late >= 0
  and due_at = scheduled_actions_in_calendar(due_at)
  and occurrence_at = scheduled_actions_in_calendar(occurrence_at)
  and anchor_at = scheduled_actions_in_calendar(anchor_at)
  and paused_at = scheduled_actions_in_calendar(paused_at)
  and missed_at = scheduled_actions_in_calendar(missed_at)
  and closed_at = scheduled_actions_in_calendar(closed_at)
  and acknowledged_at = scheduled_actions_in_calendar(acknowledged_at)
  and acknowledged_until = scheduled_actions_in_calendar(acknowledged_until)
  and created_at = scheduled_actions_in_calendar(created_at)
  and updated_at = scheduled_actions_in_calendar(updated_at)
  and jsonb_typeof(recipients) = 'array'
  and jsonb_typeof(calendar) = 'object'
  and jsonb_typeof(metadata) = 'object'
  and octet_length(metadata::text) <= 131072
  and jsonb_typeof(definition) = 'object'
  and history = scheduled_actions_readable_entries(history)
  and stages = scheduled_actions_readable_stages(stages)
);

alter table scheduled_action_deadlines
  add constraint scheduled_action_deadlines_numbers_are_in_range check (
    revision between 0 and 1000000000
    and days_late >= 0
  ) not valid,
  add constraint scheduled_action_deadlines_instants_are_in_the_calendar check (
    due_at = scheduled_actions_in_calendar(due_at)
    and occurrence_at = scheduled_actions_in_calendar(occurrence_at)
    and anchor_at = scheduled_actions_in_calendar(anchor_at)
    and paused_at = scheduled_actions_in_calendar(paused_at)
    and missed_at = scheduled_actions_in_calendar(missed_at)
    and closed_at = scheduled_actions_in_calendar(closed_at)
    and acknowledged_at = scheduled_actions_in_calendar(acknowledged_at)
    and acknowledged_until = scheduled_actions_in_calendar(acknowledged_until)
    and created_at = scheduled_actions_in_calendar(created_at)
    and updated_at = scheduled_actions_in_calendar(updated_at)
  ) not valid,
  add constraint scheduled_action_deadlines_documents_are_shaped check (
    jsonb_typeof(recipients) = 'array'
    and jsonb_typeof(calendar) = 'object'
    and jsonb_typeof(metadata) = 'object'
    and octet_length(metadata::text) <= 131072
    and jsonb_typeof(definition) = 'object'
    and history = scheduled_actions_readable_entries(history)
    and stages = scheduled_actions_readable_stages(stages)
  ) not valid;

-- Without a pattern an endpoint gets nothing: it is disabled until it has one.
update webhook_endpoints e
set
  enabled = e.enabled and cardinality(array_remove(e.patterns, null)) >= 1,
  patterns = case when cardinality(array_remove(e.patterns, null)) >= 1 then array_remove(e.patterns, null) else '{none:none}' end,
  header_names = array_remove(e.header_names, null),
  rate_limit = least(e.rate_limit, 10000),
  retry = case when jsonb_typeof(e.retry) in ('object', 'array') then e.retry end,
  filter = case when jsonb_typeof(e.filter) = 'object' then e.filter end
where not (
  cardinality(patterns) >= 1
  and array_position(patterns, null) is null
  and array_position(header_names, null) is null
  and rate_limit <= 10000
  and jsonb_typeof(retry) in ('object', 'array')
  and jsonb_typeof(filter) = 'object'
);

alter table webhook_endpoints
  add constraint webhook_endpoints_are_usable check (
    cardinality(patterns) >= 1
    and array_position(patterns, null) is null
    and array_position(header_names, null) is null
    and rate_limit <= 10000
    and jsonb_typeof(retry) in ('object', 'array')
    and jsonb_typeof(filter) = 'object'
  ) not valid;

update webhook_endpoint_states s
set
  failing_since = case when isfinite(s.failing_since) then s.failing_since end,
  last_failure_at = case when isfinite(s.last_failure_at) then s.last_failure_at end,
  clock_started_at = case when isfinite(s.clock_started_at) then s.clock_started_at end,
  warned_at = case when isfinite(s.warned_at) then s.warned_at end,
  disabled_at = case when isfinite(s.disabled_at) then s.disabled_at end,
  rate_next_at = case when isfinite(s.rate_next_at) then s.rate_next_at end,
  rate_queue_at = case when isfinite(s.rate_queue_at) then s.rate_queue_at end
where not (
  isfinite(failing_since)
  and isfinite(last_failure_at)
  and isfinite(clock_started_at)
  and isfinite(warned_at)
  and isfinite(disabled_at)
  and isfinite(rate_next_at)
  and isfinite(rate_queue_at)
);

alter table webhook_endpoint_states
  add constraint webhook_endpoint_states_instants_are_finite check (
    isfinite(failing_since)
    and isfinite(last_failure_at)
    and isfinite(clock_started_at)
    and isfinite(warned_at)
    and isfinite(disabled_at)
    and isfinite(rate_next_at)
    and isfinite(rate_queue_at)
  ) not valid;

delete from scheduled_action_ticks t
where not (
  isfinite(started_at)
  and isfinite(finished_at)
  and isfinite(lease_expires_at)
  and jsonb_typeof(counts) = 'object'
  and jsonb_typeof(budget) = 'object'
);

alter table scheduled_action_ticks
  add constraint scheduled_action_ticks_are_readable check (
    isfinite(started_at)
    and isfinite(finished_at)
    and isfinite(lease_expires_at)
    and jsonb_typeof(counts) = 'object'
    and jsonb_typeof(budget) = 'object'
  ) not valid;

-- Metadata is copied to every follow-up and read with every page. The binary form is never much smaller than half of the text:
-- only a large one is turned into text to be measured.
update scheduled_actions a
set metadata = jsonb_build_object('removed', format('%s bytes of metadata', octet_length(a.metadata::text)))
where a.status <> 'completed' and pg_column_size(a.metadata) > 32768 and octet_length(a.metadata::text) > 131072;

alter table scheduled_actions
  add constraint scheduled_actions_metadata_is_bounded check (
    pg_column_size(metadata) <= 32768 or octet_length(metadata::text) <= 131072
  ) not valid;

-- What is left of waits whose action ended otherwise is found by turns: each is checked once an hour.
alter table scheduled_action_waits add column if not exists checked_at timestamptz not null default scheduled_actions_now();
create index concurrently scheduled_action_waits_checked on scheduled_action_waits (checked_at);

-- What waits for an endpoint is found without a look at what waits for others.
create index concurrently scheduled_actions_deliveries_waiting on scheduled_actions ((payload ->> 'endpoint'), scheduled_at)
  where status = 'pending' and action_type = 'webhook:send';

-- Lists of deadlines and facts: the newest of a team, of a status, of a name; by due instant, also within a team.
create index concurrently scheduled_action_deadlines_team on scheduled_action_deadlines (team_id, id) where team_id is not null;
create index concurrently scheduled_action_deadlines_status on scheduled_action_deadlines (status, id);
create index concurrently scheduled_action_deadlines_due on scheduled_action_deadlines (due_at);
create index concurrently scheduled_action_deadlines_near on scheduled_action_deadlines (team_id, due_at, id)
  where status in ('open', 'missed') and team_id is not null;
create index concurrently scheduled_action_facts_team on scheduled_action_facts (team_id, id);
create index concurrently scheduled_action_facts_target on scheduled_action_facts (target_type, target_id, id);
create index concurrently scheduled_action_facts_name on scheduled_action_facts (name, id);
