-- The deadline exists with these arguments of set_deadline as `requested`; the action `deadline:apply` applies them after the
-- commit. An unresolved deadline of the same name is found, and unchanged until then. Returns its id.
create or replace function scheduled_actions_request_deadline(request jsonb) returns uuid
  language plpgsql volatile
  as $$
  declare
    team constant text := request ->> 'team_id';
    deadline_id uuid;
  begin
    -- Another transaction may insert a deadline of this name, or close or delete it, between the two statements.
    while deadline_id is null loop
      update scheduled_action_deadlines d
      set requested = request, updated_at = scheduled_actions_now()
      where d.id = (
          select o.id
          from scheduled_action_deadlines o
          where o.name = request ->> 'name' and coalesce(o.team_id, '') = coalesce(team, '') and o.status in ('open', 'missed')
          order by o.due_at, o.id desc
          limit 1)
        and d.status in ('open', 'missed')
      returning d.id into deadline_id;
      if deadline_id is null then
        insert into scheduled_action_deadlines as d (name, team_id, target_type, target_id, due_at, created_by, requested)
        values (
          request ->> 'name', team, request -> 'target' ->> 'type', request -> 'target' ->> 'id',
          coalesce((request ->> 'due_at')::timestamptz, scheduled_actions_now()), request ->> 'created_by', request
        )
        on conflict do nothing
        returning d.id into deadline_id;
      end if;
    end loop;
    perform schedule_action(
      'deadline:apply', jsonb_build_object('deadline_id', deadline_id), team_id => team,
      lock_group => 'deadline:apply:' || deadline_id);
    return deadline_id;
  end
  $$;
