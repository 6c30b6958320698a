-- Returns the elements of schedule_actions as rows of scheduled_actions, each with its validation error. The columns
-- have the same values as with schedule_action. The function is stable, so that the planner inlines it; the caller adds the
-- ids.
create or replace function scheduled_actions_elements(new_actions jsonb)
  returns table (
    "position" bigint, action_type text, payload jsonb, scheduled_at timestamptz, team_id text, priority integer,
    max_attempts integer, retry jsonb, lock_group text, lock_group_blocks boolean, dedup_key text, dedup_event text,
    dedup_open boolean, dedup_seconds double precision, dedup_mode text, target_type text, target_id text, user_id text,
    metadata jsonb, created_by text, condition jsonb, on_success jsonb, on_failure jsonb, limit_keys text[],
    parked_by text, expires_at timestamptz, on_expiry text, problem text
  )
  language sql stable
  as $$
    select
      e.position, e.action_type,
      case e.dedup_mode when 'append' then jsonb_build_array(e.payload) else e.payload end,
      e.due_at, e.team_id, e.priority, e.max_attempts, e.retry, e.lock_group, e.lock_group_blocks, e.dedup_key,
      e.dedup_event, e.dedup_key is not null and coalesce(e.dedup_window, e.usual_window) > 0,
      coalesce(e.dedup_window, e.usual_window), e.dedup_mode, e.target ->> 'type', e.target ->> 'id', e.user_id,
      e.metadata, e.created_by, case when e.has_extras then scheduled_actions_condition(e.condition, e.after) end,
      case when e.has_extras then scheduled_actions_follow_up_list(e.on_success) end,
      case when e.has_extras then scheduled_actions_follow_up_list(e.on_failure) end,
      e.limit_keys, case when e.limit_keys is not null and e.due_at <= scheduled_actions_now() then 'limit' end,
      coalesce(e.expires_at, scheduled_actions_expires_at(e.due_at, e.expires_in)),
      case when coalesce(e.expires_at::text, e.expires_in::text) is not null then e.on_expiry end,
      coalesce(
        scheduled_actions_problem(
          e.action_type, e.payload, e.due_at, e.team_id, e.priority, e.max_attempts, e.retry, e.lock_group, e.dedup_key,
          e.dedup_window, e.dedup_mode, e.target, e.user_id, e.metadata, e.created_by),
        case when e.delay not between 0 and 3155760000
          then format('delay: %s is not a number of seconds between 0 and a hundred years', e.delay) end,
        case when e.is_limited
          then scheduled_actions_limits_problem(
            e.limit_keys, e.due_at, e.expires_at, e.expires_in, e.on_expiry) end,
        case when e.has_extras
          then scheduled_actions_dependencies_problem(e.condition, e.after, e.on_success, e.on_failure, e.team_id) end)
    from (
      select
        r.position, r.action_type, coalesce(r.payload, '{}') as payload, at.due_at, r.team_id,
        coalesce(r.priority, 0) as priority, r.max_attempts, r.retry, r.lock_group,
        coalesce(r.lock_group_blocks, false) as lock_group_blocks,
        coalesce(r.dedup_key, scheduled_actions_derived_key(r.payload, at.due_at)) as dedup_key,
        case when r.dedup_key is not null then r.payload ->> 'event' end as dedup_event,
        r.dedup_window, coalesce(r.dedup_mode, 'latest') as dedup_mode, r.target, r.user_id, r.metadata, r.created_by,
        r.condition, r.after, r.on_success, r.on_failure, r.delay,
        scheduled_actions_limit_keys(r."limit") as limit_keys, r.expires_at,
        case when r.expires_in is not null
          -- Larger numbers, which make_interval refuses without naming the argument, are refused by name.
          then make_interval(secs => greatest(-1, least(r.expires_in, 3155760001))) end as expires_in,
        coalesce(r.on_expiry, 'skip') as on_expiry,
        coalesce(r."limit"::text, r.expires_at::text, r.expires_in::text, r.on_expiry) is not null as is_limited,
        coalesce(r.condition, r.on_success, r.on_failure, r.after) is not null as has_extras,
        case when r.dedup_window is null and (r.dedup_key is not null or r.payload ? 'entity_id')
          then scheduled_actions_dedup_window(r.action_type) end as usual_window
      from rows from (
        jsonb_to_recordset(new_actions) as (
          action_type text, payload jsonb, scheduled_at timestamptz, team_id text, priority integer, max_attempts integer,
          retry jsonb, lock_group text, lock_group_blocks boolean, dedup_key text, dedup_window double precision,
          dedup_mode text, target jsonb, user_id text, metadata jsonb, created_by text, condition jsonb,
          on_success jsonb, on_failure jsonb, after jsonb, delay double precision, "limit" jsonb,
          expires_at timestamptz, expires_in double precision, on_expiry text)
      ) with ordinality as r (
        action_type, payload, scheduled_at, team_id, priority, max_attempts, retry, lock_group, lock_group_blocks,
        dedup_key, dedup_window, dedup_mode, target, user_id, metadata, created_by, condition, on_success, on_failure,
        after, delay, "limit", expires_at, expires_in, on_expiry, "position")
      cross join lateral (
        select coalesce(r.scheduled_at, scheduled_actions_now() + make_interval(secs => coalesce(r.delay, 0)))
      ) at (due_at)
      offset 0  -- Keeps the subquery separate: otherwise each use of a column above would repeat its expression.
    ) e
  $$;
