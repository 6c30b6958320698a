-- Returns the follow-ups stored with an action as elements of schedule_actions. They belong to its team, and the action
-- is their creator unless they name another one. Raises no errors: anything but a JSON object is returned unchanged, and is
-- refused when it is scheduled.
create or replace function scheduled_actions_follow_up_elements(follow_ups jsonb, id uuid, team_id text) returns jsonb
  language sql stable parallel safe
  as $$
    select coalesce(
      jsonb_agg(case jsonb_typeof(f.one)
        when 'object' then jsonb_build_object('created_by', 'action:' || id) || f.one
          || case when team_id is null then '{}' else jsonb_build_object('team_id', team_id) end
        else f.one
      end),
      '[]')
    from jsonb_array_elements(case jsonb_typeof(follow_ups) when 'array' then follow_ups else jsonb_build_array(follow_ups) end)
      f (one)
  $$;
