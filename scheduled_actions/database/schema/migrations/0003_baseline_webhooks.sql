-- Webhooks: endpoints, their health, the types of events, and the deliveries as a view over actions. The comment above a
-- column describes its value and when the value changes.

-- Endpoints that teams, or the operator, create while the application runs; those of the settings file have no row here.
-- Secrets and the values of headers are encrypted by the application; the database never receives the key.
create table webhook_endpoints (
  -- UUID version 7: ids ascend in order of creation. Never changes.
  id uuid primary key default scheduled_actions_uuid7(),
  -- The team that owns the endpoint; null: it belongs to the operator. Never changes.
  team_id text,
  -- The address. Changed by an edit, as are all columns down to `headers`.
  url text not null,
  -- A description for people.
  description text not null default '',
  -- Patterns of the events that it receives: `entity:verb`, with `*`.
  patterns text[] not null,
  -- The filter that the content of an event must pass; null: no filter.
  filter jsonb,
  -- Whether it receives deliveries, as set by its owner.
  enabled boolean not null default true,
  -- `none`, or `fifo`: the events of one entity one at a time.
  ordering text not null default 'none',
  -- Deliveries per second; null: no limit.
  rate_limit double precision,
  -- The retry policy of its deliveries; null: the default policy.
  retry jsonb,
  -- The names of its additional headers.
  header_names text[] not null default '{}',
  -- The values of the additional headers, encrypted together.
  headers text,
  -- The signing secret, encrypted. Replaced by a rotation, and encrypted again when the key changes.
  secret text not null,
  -- The secret before the last rotation, encrypted in the same way; null: there is none.
  previous_secret text,
  -- When `previous_secret` expires. Set with it.
  previous_secret_until timestamptz,
  -- Who created it. Never changes.
  created_by text,
  -- When it was created. Never changes.
  created_at timestamptz not null default scheduled_actions_now(),
  -- When the row last changed.
  updated_at timestamptz not null default scheduled_actions_now(),
  constraint webhook_endpoints_ordering_is_known check (ordering in ('none', 'fifo')),
  constraint webhook_endpoints_rate_is_a_rate check (rate_limit > 0),
  constraint webhook_endpoints_rotation_is_whole check ((previous_secret is null) = (previous_secret_until is null)),
  constraint webhook_endpoints_are_usable check (
    cardinality(patterns) >= 1
    and array_position(patterns, null) is null
    and array_position(header_names, null) is null
    and rate_limit <= 10000
    and jsonb_typeof(retry) in ('object', 'array')
    and jsonb_typeof(filter) = 'object'
  )
);
create index webhook_endpoints_team on webhook_endpoints (team_id);
create index webhook_endpoints_fifo on webhook_endpoints (team_id) where ordering = 'fifo';

-- The health of an endpoint in the settings file or in the table above. No row: it has never failed and has no rate limit.
create table webhook_endpoint_states (
  -- The name in the settings file, or the id as text.
  endpoint text primary key,
  -- The first failure since the last success. Cleared by a success.
  failing_since timestamptz,
  -- The latest failure since the last success. Cleared by a success.
  last_failure_at timestamptz,
  -- The failure at which the time until it is disabled started to count: the first failure twelve hours or more after
  -- `failing_since`. Cleared by a success.
  clock_started_at timestamptz,
  -- When its owner was warned that it will be disabled. Cleared by a success.
  warned_at timestamptz,
  -- When it was disabled for its failures. Cleared when it is enabled again.
  disabled_at timestamptz,
  -- Why it was disabled. Set and cleared with `disabled_at`.
  disabled_reason text,
  -- The earliest instant of the next delivery under the rate limit. Changed by each delivery.
  rate_next_at timestamptz,
  -- The earliest instant of the next deferred delivery, after all those already deferred. Changed by each deferred delivery.
  rate_queue_at timestamptz,
  constraint webhook_endpoint_states_instants_are_finite check (
    isfinite(failing_since)
    and isfinite(last_failure_at)
    and isfinite(clock_started_at)
    and isfinite(warned_at)
    and isfinite(disabled_at)
    and isfinite(rate_next_at)
    and isfinite(rate_queue_at)
  )
)
with (fillfactor = 50);

-- The types of events that have been emitted. Inserted with the first event of a type, deleted when no event
-- was emitted for the longer of `retention_days` and `retention_failed_days`.
create table webhook_event_types (
  -- The team; '' for none. Never changes.
  team_id text not null,
  -- The type of event. Never changes.
  event text not null,
  -- When the first event was emitted. Never changes.
  first_seen_at timestamptz not null default scheduled_actions_now(),
  -- When the latest event was emitted.
  last_seen_at timestamptz not null default scheduled_actions_now(),
  primary key (team_id, event)
);
create index webhook_event_types_unseen on webhook_event_types (last_seen_at);

create trigger scheduled_actions_order_webhook before insert on scheduled_actions
  for each row when (new.action_type = 'webhook:send' and new.lock_group is null)
  execute function scheduled_actions_order_webhook();

-- The deliveries: actions that each send one event to one endpoint.
create view webhook_deliveries as
  select
    a.id,
    a.status,
    a.payload ->> 'endpoint' as endpoint,
    a.team_id,
    coalesce(a.payload ->> 'event', '') as event,
    coalesce(a.payload ->> 'entity_type', '') as entity_type,
    coalesce(a.payload ->> 'entity_id', '') as entity_id,
    a.attempts,
    a.max_attempts,
    case when a.status = 'pending' then a.scheduled_at end as next_attempt_at,
    case when a.status = 'completed' then webhook_status(a.result)
      else (webhook_attempt(a.history -> -1) ->> 'status')::integer end as response_status,
    a.error_message as error,
    coalesce(
      (
        select jsonb_agg(webhook_attempt(h.entry) order by h.position)
        from jsonb_array_elements(a.history) with ordinality h (entry, position)
        where h.entry ->> 'outcome' in ('failed', 'timed_out', 'crashed')
      ),
      '[]') || case when a.status = 'completed'
      then jsonb_build_array(jsonb_build_object(
        'attempt', a.attempts, 'at', a.started_at, 'status', webhook_status(a.result),
        'duration_ms', case when jsonb_typeof(a.result -> 'duration_ms') = 'number' then a.result -> 'duration_ms' end,
        'answer', a.result ->> 'answer', 'error', null))
      else '[]' end as attempt_log,
    coalesce(a.metadata ->> 'event_action_id', a.id::text) as event_action_id,
    a.lock_group,
    a.started_at,
    a.completed_at,
    a.created_at,
    a.updated_at
  from scheduled_actions a
  where a.action_type = 'webhook:send' and a.payload ? 'endpoint' and jsonb_typeof(a.payload -> 'endpoint') = 'string';

