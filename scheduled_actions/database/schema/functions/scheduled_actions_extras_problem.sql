-- Returns what is wrong with the condition, the actions before and the follow-ups of a new action; null: nothing.
create or replace function scheduled_actions_extras_problem(
  condition jsonb, after jsonb, on_success jsonb, on_failure jsonb, team_id text
) returns text
  language plpgsql stable
  as $$
  declare
    problem text;
    one record;
    taken constant text[] := array[
      -- include: actions/argument_names
    ];
  begin
    if jsonb_typeof(condition) <> 'object' then
      return 'condition: is not a JSON object';
    elsif octet_length(condition::text) > 32768 then
      return format('condition is %s bytes; at most 32768 are taken', octet_length(condition::text));
    end if;
    if after is not null then
      if jsonb_typeof(after) <> 'array' or jsonb_array_length(after) > 100 then
        return 'after: is not a list of at most 100 ids';
      end if;
      select format('after: no action has the id %s', left(e.id, 80)) into problem
      from jsonb_array_elements_text(after) e (id)
      where not exists (
        select
        from scheduled_actions a
        where a.id = case when e.id ~* '^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$' then e.id::uuid end
          and coalesce(a.team_id, '') = coalesce(scheduled_actions_extras_problem.team_id, ''))
      limit 1;
      if problem is not null then
        return problem;
      end if;
    end if;
    for one in
      select n.name, n.given
      from (values ('on_success', on_success), ('on_failure', on_failure)) n (name, given)
      where n.given is not null
    loop
      if octet_length(one.given::text) > 65536 then
        return format('%s is %s bytes; at most 65536 are taken', one.name, octet_length(one.given::text));
      end if;
      problem := case
        when jsonb_typeof(one.given) not in ('object', 'array')
          then 'is not {"action_type": …, "payload": …} or a list of these'
        when jsonb_array_length(scheduled_actions_follow_ups(one.given)) > 20 then 'holds more than 20 actions'
      end;
      if problem is null then
        select case
          when jsonb_typeof(e.element) <> 'object' then 'is not {"action_type": …, "payload": …} or a list of these'
          when jsonb_typeof(e.element -> 'action_type') is distinct from 'string' then 'needs an action_type'
          when e.element - taken <> '{}' then format(
            '%L is no argument of a follow-up', (select min(k.name) from jsonb_object_keys(e.element - taken) k (name)))
        end
        into problem
        from jsonb_array_elements(scheduled_actions_follow_ups(one.given)) e (element)
        where jsonb_typeof(e.element) <> 'object'
          or jsonb_typeof(e.element -> 'action_type') is distinct from 'string'
          or e.element - taken <> '{}'
        limit 1;
      end if;
      if problem is not null then
        return format('%s: %s', one.name, problem);
      end if;
    end loop;
    return null;
  end
  $$;
