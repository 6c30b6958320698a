-- The action is stored as by schedule_action, whose arguments are the keys of the object, as in an element of schedule_actions.
-- Python calls this: a statement with one parameter is parsed in half of the time of one with a parameter per argument.
create or replace function scheduled_actions_schedule_one(element jsonb)
  returns table (id uuid, deduplicated boolean)
  language plpgsql volatile
  as $$
  begin
    return query
      select s.id, s.deduplicated
      from schedule_action(
        element ->> 'action_type',
        element -> 'payload',
        scheduled_at => case
          when element ? 'delay' then scheduled_actions_now() + make_interval(secs => (element ->> 'delay')::double precision)
          else (element ->> 'scheduled_at')::timestamptz
        end,
        team_id => element ->> 'team_id',
        priority => coalesce((element ->> 'priority')::integer, 0),
        max_attempts => (element ->> 'max_attempts')::integer,
        retry => element -> 'retry',
        lock_group => element ->> 'lock_group',
        lock_group_blocks => (element ->> 'lock_group_blocks')::boolean,
        dedup_key => element ->> 'dedup_key',
        dedup_window => (element ->> 'dedup_window')::double precision,
        dedup_mode => coalesce(element ->> 'dedup_mode', 'latest'),
        target => element -> 'target',
        user_id => element ->> 'user_id',
        metadata => element -> 'metadata',
        created_by => element ->> 'created_by',
        condition => element -> 'condition',
        after => case when element ? 'after' then array(select jsonb_array_elements_text(element -> 'after'))::uuid[] end,
        on_success => element -> 'on_success',
        on_failure => element -> 'on_failure',
        limits => scheduled_actions_limit_keys(element -> 'limit'),
        expires_at => (element ->> 'expires_at')::timestamptz,
        expires_in => make_interval(secs => (element ->> 'expires_in')::double precision),
        on_expiry => coalesce(element ->> 'on_expiry', 'skip')
      ) s;
  end
  $$;
