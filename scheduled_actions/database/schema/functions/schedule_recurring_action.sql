-- The next tick creates or updates the schedule with these arguments, as Python's schedule_recurring_action does. Returns the
-- id of the schedule. Invalid arguments raise invalid_parameter_value; the message names the argument. What only Python can
-- check (the rule, the time zone, the skip rules and the payload's model) is checked by that tick.
create or replace function schedule_recurring_action(
  action_type text,
  payload jsonb,
  recurrence text,
  scheduled_at timestamptz default null,
  timezone text default null,
  name text default null,
  recurrence_type text default 'fixed',
  misfire text default 'fire_once',
  misfire_grace_seconds double precision default null,
  catch_up_limit integer default null,
  catch_up_seconds double precision default null,
  overlap text default 'skip',
  requires_previous boolean default false,
  pause_after_failures integer default null,
  skip jsonb default null,
  jitter_seconds double precision default null,
  until timestamptz default null,
  remaining integer default null,
  team_id text default null,
  priority integer default 0,
  max_attempts integer default null,
  retry jsonb default null,
  lock_group text default null,
  lock_group_blocks boolean default false,
  target jsonb default null,
  user_id text default null,
  metadata jsonb default null,
  condition jsonb default null,
  on_success jsonb default null,
  on_failure jsonb default null,
  limits text[] default null,
  expires_in interval default null,
  on_expiry text default 'skip',
  created_by text default null
)
  returns table (id uuid)
  language plpgsql volatile
  -- Instants in `requested` are in UTC, whatever the time zone of the session.
  set timezone = 'UTC'
  as $$
  #variable_conflict use_variable
  declare
    problem constant text := coalesce(
      scheduled_actions_problem(
        action_type, payload, coalesce(scheduled_at, scheduled_actions_now()), team_id, priority, max_attempts, retry,
        lock_group, null, null, 'latest', target, user_id, metadata, created_by),
      scheduled_actions_dependencies_problem(condition, null, on_success, on_failure, team_id),
      scheduled_actions_limits_problem(limits, null, null, expires_in, on_expiry),
      case
        when recurrence is null or length(recurrence) not between 1 and 2000
          then 'recurrence: must have 1 to 2000 characters'
        when scheduled_at <> scheduled_actions_clamp_instant(scheduled_at)
          then format('scheduled_at: %s is not in the years 1 to 9999', scheduled_at)
        when until <> scheduled_actions_clamp_instant(until) then format('until: %s is not in the years 1 to 9999', until)
        when length(timezone) not between 1 and 255 then 'timezone: must have 1 to 255 characters'
        when scheduled_actions_name_problem(name) is not null then scheduled_actions_name_problem(name)
        when recurrence_type is null or recurrence_type not in ('fixed', 'rolling')
          then format('recurrence_type: %L is not fixed or rolling', left(recurrence_type, 80))
        when misfire is null or misfire not in ('fire_once', 'skip', 'catch_up')
          then format('misfire: %L is not fire_once, skip or catch_up', left(misfire, 80))
        when overlap is null or overlap not in ('skip', 'queue', 'allow')
          then format('overlap: %L is not skip, queue or allow', left(overlap, 80))
        when misfire_grace_seconds not between 0 and 31622400
          then format('misfire_grace_seconds: %s is not a number of seconds between 0 and a year', misfire_grace_seconds)
        when catch_up_seconds not between 0 and 31622400
          then format('catch_up_seconds: %s is not a number of seconds between 0 and a year', catch_up_seconds)
        when jitter_seconds not between 0 and 31622400
          then format('jitter_seconds: %s is not a number of seconds between 0 and a year', jitter_seconds)
        when catch_up_limit not between 1 and 10000
          then format('catch_up_limit: %s is not between 1 and 10000', catch_up_limit)
        when pause_after_failures not between 1 and 10000
          then format('pause_after_failures: %s is not between 1 and 10000', pause_after_failures)
        when remaining < 1 then format('remaining: %s is not between 1 and 2147483647', remaining)
        when jsonb_typeof(skip) <> 'object'
          then format('skip: must be a JSON object, not a JSON %s', jsonb_typeof(skip))
        when octet_length(skip::text) > 65536 then format('skip is %s bytes; the limit is 65536', octet_length(skip::text))
        when octet_length(metadata::text) > 65536
          then format('metadata is %s bytes; the limit is 65536', octet_length(metadata::text))
      end);
  begin
    if problem is not null then
      perform scheduled_actions_refuse(problem);
    end if;
    return query select scheduled_actions_request_schedule(
      jsonb_build_object(
        'action_type', action_type, 'payload', payload, 'recurrence', recurrence, 'scheduled_at', scheduled_at,
        'timezone', timezone, 'name', name, 'recurrence_type', recurrence_type, 'misfire', misfire,
        'misfire_grace_seconds', misfire_grace_seconds, 'catch_up_limit', catch_up_limit,
        'catch_up_seconds', catch_up_seconds, 'overlap', overlap, 'requires_previous', requires_previous,
        'pause_after_failures', pause_after_failures,
        'skip', skip, 'jitter_seconds', jitter_seconds, 'until', until, 'remaining', remaining, 'team_id', team_id,
        'priority', priority, 'max_attempts', max_attempts, 'retry', retry, 'lock_group', lock_group)
      || jsonb_build_object(
        'lock_group_blocks', lock_group_blocks, 'target', target, 'user_id', user_id, 'metadata', metadata,
        'condition', condition, 'on_success', on_success, 'on_failure', on_failure, 'limit', limits,
        'expires_in', extract(epoch from expires_in)::double precision, 'on_expiry', on_expiry, 'created_by', created_by));
  end
  $$;
