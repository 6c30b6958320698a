-- Returns the first problem of the condition, the `after` list and the follow-ups of a new action; null if they are valid.
create or replace function scheduled_actions_dependencies_problem(
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
      return 'condition: must be a JSON object';
    elsif octet_length(condition::text) > 32768 then
      return format('condition is %s bytes; the limit is 32768', octet_length(condition::text));
    end if;
    if after is not null then
      if jsonb_typeof(after) <> 'array' or jsonb_array_length(after) > 100 then
        return 'after: must be a list of at most 100 ids';
      end if;
      select format('after: no action has the id %s', left(e.text, 80)) into problem
      from (
        select g.text, case when g.text ~* '^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$' then g.text::uuid end as id
        from jsonb_array_elements_text(after) g (text)
        offset 0
      ) e
      -- A scalar subquery looks each id up in the primary key; `not exists` would become a join that reads the whole table.
      where (
        select true
        from scheduled_actions a
        where a.id = e.id
          and coalesce(a.team_id, '') = coalesce(scheduled_actions_dependencies_problem.team_id, '')
      ) is null
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
        return format('%s is %s bytes; the limit is 65536', one.name, octet_length(one.given::text));
      end if;
      problem := case
        when jsonb_typeof(one.given) not in ('object', 'array')
          then 'must be {"action_type": …, "payload": …} or a list of these'
        when jsonb_array_length(scheduled_actions_follow_up_list(one.given)) > 20 then 'has more than 20 actions'
      end;
      if problem is null then
        select case
          when jsonb_typeof(e.element) <> 'object' then 'must be {"action_type": …, "payload": …} or a list of these'
          when jsonb_typeof(e.element -> 'action_type') is distinct from 'string' then 'needs an action_type'
          when e.element - taken <> '{}' then format(
            '%L is not an argument of a follow-up; the arguments are %s',
            (select min(k.name) from jsonb_object_keys(e.element - taken) k (name)), array_to_string(taken, ', '))
        end
        into problem
        from jsonb_array_elements(scheduled_actions_follow_up_list(one.given)) e (element)
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
