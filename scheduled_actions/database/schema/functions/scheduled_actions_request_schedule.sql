-- The schedule exists with these arguments of schedule_recurring_action as `requested`; the action `schedule:apply` applies
-- them after the commit. A schedule with the same name is found, and unchanged until then. Returns its id.
create or replace function scheduled_actions_request_schedule(request jsonb) returns uuid
  language plpgsql volatile
  as $$
  declare
    schedule_id uuid;
  begin
    insert into scheduled_action_schedules as s (
      name, action_type, payload, team_id, recurrence, kind, timezone, anchor_at, created_by, requested
    )
    values (
      request ->> 'name', request ->> 'action_type', request -> 'payload', request ->> 'team_id', request ->> 'recurrence',
      'interval', coalesce(request ->> 'timezone', 'UTC'),
      coalesce((request ->> 'scheduled_at')::timestamptz, scheduled_actions_now()), request ->> 'created_by', request
    )
    on conflict (name, coalesce(team_id, '')) where name is not null
    do update set requested = excluded.requested, updated_at = scheduled_actions_now()
    where s.action_type = excluded.action_type
    returning s.id into schedule_id;
    if schedule_id is null then
      perform scheduled_actions_refuse(format(
        'action_type cannot change to %s in schedule %s: use another name, or delete the schedule first',
        request ->> 'action_type', request -> 'name'));
    end if;
    perform schedule_action(
      'schedule:apply', jsonb_build_object('schedule_id', schedule_id), team_id => request ->> 'team_id',
      lock_group => 'schedule:apply:' || schedule_id);
    return schedule_id;
  end
  $$;
