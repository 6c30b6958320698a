-- The event is emitted as by Python's emit_event: an action of the type `webhook:send` is stored, or merged into a pending
-- one. Returns the same as schedule_action.
create or replace function emit_event(
  event text, entity_id text, data jsonb, team_id text default null, endpoint text default null
)
  returns table (id uuid, deduplicated boolean)
  language plpgsql volatile
  as $$
  #variable_conflict use_variable
  declare
    problem constant text := case
      when event is null or length(event) > 200 or event !~ '^[^:[:cntrl:]]+:[^[:cntrl:]]+$'
        then format('event: %L is not an event such as task:created (entity, colon, verb; at most 200 characters, all printable)', left(event, 80))
      when entity_id is null or length(entity_id) not between 1 and 500 then 'entity_id: must have 1 to 500 characters'
      when data is null then 'data: must be a JSON value, not an SQL null'
      when length(endpoint) not between 1 and 100 then 'endpoint: must have 1 to 100 characters'
    end;
  begin
    if problem is not null then
      perform scheduled_actions_refuse(problem);
    end if;
    return query
      select s.id, s.deduplicated
      from schedule_action(
        'webhook:send',
        jsonb_build_object(
          'event', event, 'entity_type', split_part(event, ':', 1), 'entity_id', entity_id, 'data', data)
          || case when endpoint is null then '{}' else jsonb_build_object('endpoint', endpoint) end,
        team_id => team_id) s;
  end
  $$;
