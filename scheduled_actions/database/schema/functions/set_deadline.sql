-- The next tick creates the deadline, or updates the unresolved deadline of this name, as Python's set_deadline does. Returns
-- the id of the deadline. Invalid arguments raise invalid_parameter_value; the message names the argument. The contents of
-- the stages, recipients, rule and calendar are checked by that tick.
create or replace function set_deadline(
  target jsonb,
  due_at timestamptz default null,
  reminders jsonb default null,
  escalation jsonb default null,
  auto_actions jsonb default null,
  recipients jsonb default null,
  recurrence text default null,
  timezone text default null,
  calendar jsonb default null,
  team_id text default null,
  name text default null,
  metadata jsonb default null,
  created_by text default null
)
  returns table (id uuid)
  language plpgsql volatile
  -- Instants in `requested` are in UTC, whatever the time zone of the session.
  set timezone = 'UTC'
  as $$
  #variable_conflict use_variable
  declare
    request constant jsonb := jsonb_build_object(
      'target', target, 'due_at', due_at, 'reminders', reminders, 'escalation', escalation, 'auto_actions', auto_actions,
      'recipients', recipients, 'recurrence', recurrence, 'timezone', timezone, 'calendar', calendar, 'team_id', team_id,
      'name', name, 'metadata', metadata, 'created_by', created_by);
    problem constant text := case
      when case jsonb_typeof(target)
          when 'object' then target - array['type', 'id'] <> '{}'
            or jsonb_typeof(target -> 'type') is distinct from 'string'
            or jsonb_typeof(target -> 'id') is distinct from 'string'
            or length(target ->> 'type') not between 1 and 255
            or length(target ->> 'id') not between 1 and 255
          else true
        end
        then 'target: must be {"type": "license", "id": "42"}, with two strings of 1 to 255 characters'
      when due_at is null and recurrence is null then 'due_at is required for a deadline without a recurrence'
      when due_at < '1900-01-01Z' or due_at >= '9801-01-01Z'
        then format('due_at: %s is not an instant between the years 1900 and 9800', due_at)
      when jsonb_typeof(reminders) not in ('array', 'null')
        then format('reminders: must be a JSON array, not a JSON %s', jsonb_typeof(reminders))
      when jsonb_typeof(escalation) not in ('array', 'object', 'null')
        then format('escalation: must be a JSON array or object, not a JSON %s', jsonb_typeof(escalation))
      when jsonb_typeof(auto_actions) not in ('array', 'null')
        then format('auto_actions: must be a JSON array, not a JSON %s', jsonb_typeof(auto_actions))
      when jsonb_typeof(calendar) not in ('object', 'null')
        then format('calendar: must be a JSON object, not a JSON %s', jsonb_typeof(calendar))
      when length(recurrence) not between 1 and 2000 then 'recurrence: must have 1 to 2000 characters'
      when length(timezone) not between 1 and 255 then 'timezone: must have 1 to 255 characters'
      when length(team_id) not between 1 and 255 then 'team_id: must have 1 to 255 characters'
      when scheduled_actions_name_problem(name) is not null then scheduled_actions_name_problem(name)
      when jsonb_typeof(metadata) not in ('object', 'null')
        then format('metadata: must be a JSON object, not a JSON %s', jsonb_typeof(metadata))
      when octet_length(metadata::text) > 65536
        then format('metadata is %s bytes; the limit is 65536', octet_length(metadata::text))
      when octet_length(created_by) > 65536
        then format('created_by is %s bytes; the limit is 65536', octet_length(created_by))
      when octet_length(request::text) > 1048576
        then format('the deadline is %s bytes; the limit is 1048576', octet_length(request::text))
    end;
  begin
    if problem is not null then
      perform scheduled_actions_refuse(problem);
    end if;
    return query select scheduled_actions_request_deadline(request);
  end
  $$;
