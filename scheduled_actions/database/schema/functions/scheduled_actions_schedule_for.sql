-- The actions are stored as by schedule_actions, for a role that is bound to a team.
create or replace function scheduled_actions_schedule_for(team text, new_actions jsonb)
  returns table (id uuid, deduplicated boolean)
  language plpgsql volatile
  as $$
  begin
    if jsonb_typeof(new_actions) = 'array' then
      perform scheduled_actions_check_team(e.element, team) from jsonb_array_elements(new_actions) e (element);
      new_actions := (
        select coalesce(jsonb_agg(
          case jsonb_typeof(e.element) when 'object' then e.element || jsonb_build_object('team_id', team) else e.element end
          order by e.position), '[]')
        from jsonb_array_elements(new_actions) with ordinality e (element, position));
    end if;
    return query select s.id, s.deduplicated from schedule_actions(new_actions) s;
  end
  $$;
