-- The action is stored, or merged into a pending one with the same open dedup key. Returns its id, and whether it was merged.
-- Invalid arguments raise invalid_parameter_value; the message names the argument.
create or replace function schedule_action(
  action_type text,
  payload jsonb default '{}',
  scheduled_at timestamptz default null,
  team_id text default null,
  priority integer default 0,
  max_attempts integer default null,
  retry jsonb default null,
  lock_group text default null,
  lock_group_blocks boolean default false,
  dedup_key text default null,
  dedup_window double precision default null,
  dedup_mode text default 'latest',
  target jsonb default null,
  user_id text default null,
  metadata jsonb default null,
  created_by text default null,
  condition jsonb default null,
  after uuid[] default null,
  on_success jsonb default null,
  on_failure jsonb default null,
  limits text[] default null,
  expires_at timestamptz default null,
  expires_in interval default null,
  on_expiry text default 'skip'
)
  returns table (id uuid, deduplicated boolean)
  language plpgsql volatile
  as $$
  #variable_conflict use_variable
  declare
    item scheduled_actions;
    seconds double precision := 0;
    problem text;
    placed record;
  begin
    item.id := scheduled_actions_uuid7();
    item.action_type := action_type;
    item.payload := case dedup_mode when 'append' then jsonb_build_array(payload) else payload end;
    item.scheduled_at := coalesce(scheduled_at, scheduled_actions_now());
    item.team_id := team_id;
    item.max_attempts := max_attempts;
    item.retry := retry;
    item.lock_group := lock_group;
    item.lock_group_blocks := coalesce(lock_group_blocks, false);
    item.dedup_key := coalesce(dedup_key, scheduled_actions_derived_key(payload, item.scheduled_at));
    item.dedup_event := case when dedup_key is not null then payload ->> 'event' end;
    item.target_type := target ->> 'type';
    item.target_id := target ->> 'id';
    item.user_id := user_id;
    item.metadata := metadata;
    item.created_by := created_by;
    item.limit_keys := limits;
    item.expires_at := case
      when expires_in is null then expires_at
      else scheduled_actions_expires_at(item.scheduled_at, expires_in)
    end;
    item.on_expiry := case when item.expires_at is not null then on_expiry end;
    problem := scheduled_actions_problem(
      action_type, payload, item.scheduled_at, team_id, priority, max_attempts, retry, lock_group, item.dedup_key,
      dedup_window, dedup_mode, target, user_id, metadata, created_by);
    if limits is not null or expires_at is not null or expires_in is not null or on_expiry is distinct from 'skip' then
      problem := coalesce(problem, scheduled_actions_limits_problem(limits, item.scheduled_at, expires_at, expires_in, on_expiry));
    end if;
    if condition is not null or after is not null or on_success is not null or on_failure is not null then
      problem := coalesce(
        problem, scheduled_actions_dependencies_problem(condition, to_jsonb(after), on_success, on_failure, team_id));
      item.condition := scheduled_actions_condition(condition, to_jsonb(after));
      item.on_success := scheduled_actions_follow_up_list(on_success);
      item.on_failure := scheduled_actions_follow_up_list(on_failure);
    end if;
    if problem is not null then
      perform scheduled_actions_refuse(problem);
    end if;
    item.priority := priority;
    if item.dedup_key is not null then
      seconds := coalesce(dedup_window, scheduled_actions_dedup_window(action_type));
    end if;
    item.dedup_open := seconds > 0;
    placed := scheduled_actions_insert_with_timeout(item, seconds, dedup_mode);
    id := placed.id;
    deduplicated := placed.deduplicated;
    return next;
  end
  $$;
