-- Returns the name of an invalid argument of an action, and the expected values; null if all arguments are valid.
create or replace function scheduled_actions_problem(
  action_type text, payload jsonb, scheduled_at timestamptz, team_id text, priority integer, max_attempts integer,
  retry jsonb, lock_group text, dedup_key text, dedup_window double precision, dedup_mode text, target jsonb, user_id text,
  metadata jsonb, created_by text
) returns text
  language sql stable parallel safe
  as $$
    select case
      -- The length is checked separately, because a counted repetition makes the pattern thirty times slower.
      when action_type is null or length(action_type) > 200 or action_type !~ '^[A-Za-z0-9][A-Za-z0-9._:-]*$'
        then format('action_type: %L is not an action type: 1 to 200 letters, digits, ".", "_", ":" or "-", starting with a letter or digit', left(action_type, 80))
      when jsonb_typeof(payload) is distinct from 'object'
        then format('payload: must be a JSON object, not a JSON %s', coalesce(jsonb_typeof(payload), 'null'))
      -- The binary form is never much smaller than half of the text, so only large values are converted to text.
      when pg_column_size(payload) > 65536 and octet_length(payload::text) > 262144
        then format('payload is %s bytes; the limit is 262144', octet_length(payload::text))
      when not isfinite(scheduled_at) then format('scheduled_at: must be a finite instant, not %s', scheduled_at)
      when team_id is not null and length(team_id) not between 1 and 255
        then 'team_id: must have 1 to 255 characters'
      when priority is null or priority not between -32768 and 32767
        then format('priority: %s is not between -32768 and 32767', priority)
      when max_attempts not between 1 and 1000 then format('max_attempts: %s is not between 1 and 1000', max_attempts)
      when retry is not null and scheduled_actions_retry_problem(retry) is not null
        then format('retry: %s', scheduled_actions_retry_problem(retry))
      when lock_group is not null and length(lock_group) not between 1 and 255
        then 'lock_group: must have 1 to 255 characters'
      when dedup_key is not null and length(dedup_key) not between 1 and 512
        then 'dedup_key: must have 1 to 512 characters'
      when dedup_window not between 0 and 31622400
        then format('dedup_window: %s is not a number of seconds between 0 and a year', dedup_window)
      when dedup_mode is null or dedup_mode not in ('latest', 'first', 'append')
        then format('dedup_mode: %L is not latest, first or append', dedup_mode)
      when target is not null and case jsonb_typeof(target)
          when 'object' then target - array['type', 'id'] <> '{}'
            or jsonb_typeof(target -> 'type') is distinct from 'string'
            or jsonb_typeof(target -> 'id') is distinct from 'string'
          else true
        end
        then format('target: must be an object such as {"type": "invoice", "id": "42"}, not %s', left(target::text, 80))
      when jsonb_typeof(metadata) <> 'object'
        then format('metadata: must be a JSON object, not a JSON %s', jsonb_typeof(metadata))
      when octet_length(target ->> 'type') + octet_length(target ->> 'id') > 65536
        then format('target is %s bytes; the limit is 65536', octet_length(target::text))
      when octet_length(user_id) > 65536 then format('user_id is %s bytes; the limit is 65536', octet_length(user_id))
      when octet_length(created_by) > 65536
        then format('created_by is %s bytes; the limit is 65536', octet_length(created_by))
    end
  $$;
