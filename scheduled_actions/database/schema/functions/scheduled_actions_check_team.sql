-- Raises insufficient_privilege for an element of schedule_actions that a role bound to a team may not schedule. The actions
-- that the element schedules in turn belong to the same team and are checked in the same way.
create or replace function scheduled_actions_check_team(element jsonb, team text) returns void
  language plpgsql stable
  as $$
  declare
    problem text;
  begin
    if element ->> 'team_id' <> team then
      raise exception 'team_id: this role acts for the team %, not for %', to_jsonb(team), element -> 'team_id'
        using errcode = 'insufficient_privilege';
    end if;
    with recursive scheduled (one) as (
      select element
      union
      select f.one
      from scheduled s
      cross join lateral (
        select jsonb_path_query(s.one, '$.on_success[*]')
        union all select jsonb_path_query(s.one, '$.on_failure[*]')
        union all select jsonb_path_query(s.one, '$.auto_actions[*]')
        union all select jsonb_path_query(s.one, '$.condition.**.on_timeout[*]')
        -- Each row becomes an action of the payload's type, with its options as further arguments.
        union all select jsonb_path_query(s.one, '$ ? (@.action_type == "for_each:run").payload')
        union all select jsonb_path_query(s.one, '$ ? (@.action_type == "for_each:run").payload.options')
      ) f (one)
    )
    select case
      when s.one ->> 'action_type' = 'webhook:send' and s.one -> 'payload' ->> 'endpoint' is not null
        and not exists (
          select from webhook_endpoints e
          where e.team_id = team and e.id::text = s.one -> 'payload' ->> 'endpoint')
        then 'payload.endpoint: must be the id of an endpoint of the team; to emit an event, leave out the endpoint'
      -- These two events cause an email to the operator.
      when s.one ->> 'action_type' = 'webhook:send'
        and s.one -> 'payload' ->> 'event' in ('webhook:endpoint-disabled', 'webhook:endpoint-failing')
        then 'payload.event: is reserved for failing endpoints; use another event'
      when not coalesce((
        select o.value ? (s.one ->> 'action_type')
        from scheduled_action_settings o
        where o.name = 'types_open_to_teams'
      ), s.one ->> 'action_type' = 'webhook:send')
        then format('action_type: %s is not open to teams: its handler needs @action(open_to_teams=True)', to_jsonb(left(s.one ->> 'action_type', 80)))
    end
    into problem
    from scheduled s
    where s.one ->> 'action_type' is not null
    order by 1
    limit 1;
    if problem is not null then
      raise exception '%', problem using errcode = 'insufficient_privilege';
    end if;
  end
  $$;
