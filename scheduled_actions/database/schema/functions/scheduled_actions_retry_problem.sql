-- Returns the problem of a retry policy; null if it is valid. `parse` in core/retry.py accepts the same policies.
create or replace function scheduled_actions_retry_problem(retry jsonb) returns text
  language plpgsql immutable parallel safe
  as $$
  declare
    kind constant text := retry ->> 'kind';
    fields constant text[] := case kind
      when 'delays' then array['kind', 'seconds', 'jitter']
      else array['kind', 'base_seconds', 'cap_seconds', 'jitter']
    end;
    delays constant jsonb := case jsonb_typeof(retry) when 'array' then retry else retry -> 'seconds' end;
    seconds jsonb := '[]';
    wrong jsonb;
  begin
    if jsonb_typeof(retry) not in ('object', 'array') then
      return 'must be {"kind": …} or a list of seconds';
    elsif jsonb_typeof(retry) = 'array' or kind = 'delays' then
      if jsonb_typeof(delays) is distinct from 'array' or jsonb_array_length(delays) not between 1 and 100 then
        return 'must have a list of 1 to 100 delays in seconds';
      end if;
      seconds := delays;
    elsif kind is null or kind not in ('exponential', 'linear') then
      return format('%L is not exponential, linear or delays', left(kind, 80));
    else
      seconds := jsonb_build_array(
        coalesce(retry -> 'base_seconds', '0'), coalesce(retry -> 'cap_seconds', '0'));
    end if;
    select e.value into wrong
    from jsonb_array_elements(seconds) e
    where case jsonb_typeof(e.value) when 'number' then e.value::numeric not between 0 and 31536000 else true end
    limit 1;
    if found then
      return format('%s is not a number of seconds between 0 and a year', left(wrong::text, 80));
    end if;
    if jsonb_typeof(retry) = 'array' then
      return null;
    elsif retry - fields <> '{}' then
      return format(
        '%L is not a field of %s (%s)',
        (select min(k.name) from jsonb_object_keys(retry - fields) k (name)), kind, array_to_string(fields, ', '));
    elsif coalesce(retry -> 'jitter', '"none"') not in ('"none"', '"full"', '"equal"') then
      return format('%s is not a jitter: none, full or equal', left((retry -> 'jitter')::text, 80));
    end if;
    return null;
  end
  $$;
