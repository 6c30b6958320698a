-- The action is inserted, or merged into a pending one with the same open key. Returns the same as schedule_action.
create or replace function scheduled_actions_insert(
  item scheduled_actions, dedup_window double precision, dedup_mode text, out id uuid, out deduplicated boolean
)
  language plpgsql volatile
  as $$
  #variable_conflict use_column
  declare
    since timestamptz := scheduled_actions_now() - make_interval(secs => scheduled_actions_insert.dedup_window);
    placed record;
  begin
    -- Without an open key it cannot be merged. `on conflict` would write one more WAL record.
    if not item.dedup_open then
      insert into scheduled_actions (
        -- include: actions/new_action_columns,
        scheduled_by
      )
      values (
        -- include: actions/new_action_values
      );
      id := item.id;
      deduplicated := false;
      return;
    end if;
    for attempt in 1 .. 5 loop
      insert into scheduled_actions as a (
        -- include: actions/new_action_columns,
        scheduled_by
      )
      values (
        -- include: actions/new_action_values
      )
      on conflict (dedup_key, action_type, coalesce(team_id, ''), coalesce(dedup_event, '')) where dedup_open
      do update set
        payload = case scheduled_actions_insert.dedup_mode
          when 'latest' then excluded.payload
          when 'first' then a.payload
          when 'append' then
            case jsonb_typeof(a.payload) when 'array' then a.payload else jsonb_build_array(a.payload) end || excluded.payload
        end,
        condition = case scheduled_actions_insert.dedup_mode when 'latest' then excluded.condition else a.condition end,
        on_success = case scheduled_actions_insert.dedup_mode when 'latest' then excluded.on_success else a.on_success end,
        on_failure = case scheduled_actions_insert.dedup_mode when 'latest' then excluded.on_failure else a.on_failure end,
        limit_keys = case scheduled_actions_insert.dedup_mode when 'latest' then excluded.limit_keys else a.limit_keys end,
        parked_by = case
          when a.parked_by like 'queue:%' then null
          when scheduled_actions_insert.dedup_mode = 'latest' and excluded.limit_keys is null
            then nullif(a.parked_by, 'limit')
          else a.parked_by
        end,
        expires_at = case scheduled_actions_insert.dedup_mode when 'latest' then excluded.expires_at else a.expires_at end,
        on_expiry = case scheduled_actions_insert.dedup_mode when 'latest' then excluded.on_expiry else a.on_expiry end,
        updated_at = scheduled_actions_now()
      -- An action that is not pending, was created before the window or would become too large is not changed.
      where a.status = 'pending' and a.created_at > since
        and (scheduled_actions_insert.dedup_mode <> 'append'
             or octet_length(a.payload::text) + octet_length(excluded.payload::text) <= 262144)
      returning a.id, a.id <> item.id into id, deduplicated;
      if found then
        return;
      end if;
      update scheduled_actions a
      set dedup_open = false
      where a.dedup_open
        and a.dedup_key = item.dedup_key
        and a.action_type = item.action_type
        and coalesce(a.team_id, '') = coalesce(item.team_id, '')
        and coalesce(a.dedup_event, '') = coalesce(item.dedup_event, '');
    end loop;
    -- Each time the key was closed, another transaction opened it again. The action must not be dropped, so it is inserted
    -- without an open key.
    item.dedup_open := false;
    placed := scheduled_actions_insert(item, 0, 'latest');
    id := placed.id;
    deduplicated := placed.deduplicated;
  end
  $$;
