-- At most `wanted` due actions without a lock group are claimed by this tick, by priority and then by time. The scan
-- starts after the tick's last position and skips actions locked by other transactions.
-- Actions with limit keys are not claimed but parked in the queue of their first key; they are returned, too.
-- Unless `with_series` is true, nothing is claimed if an occurrence of a series is among them, because that requires a
-- transaction.
-- The commit does not wait for the disk: no handler starts before the announcement, whose commit writes the claim as well.
-- This is a function, so that a session plans it only once: planning takes as long as the claim of sixty actions. The
-- settings keep plans that were made when the tables were small from being slow later.
create or replace function scheduled_actions_claim_free(
  wanted integer,
  after_priority smallint,
  after_at timestamptz,
  after_id uuid,
  excluded text[],
  with_series boolean,
  token uuid,
  lease_ends_at timestamptz
)
  returns table (
    -- Names and types of the columns of `claim_columns`.
    id uuid, action_type text, priority smallint, scheduled_epoch double precision, scheduled_text text, attempts integer,
    max_attempts integer, lock_group text, lock_group_blocks boolean, last_outcome text, payload text, state text,
    retry text, metadata text, history text, team_id text, error_message text, target_type text, target_id text,
    user_id text, created_by text, schedule_id uuid, deadline_id uuid, scheduled_by uuid, dedup_key text,
    occurrence_epoch double precision, previous_occurrence_epoch double precision,
    started_epoch double precision, created_epoch double precision, condition text,
    has_follow_ups boolean, limit_keys text[], expires_epoch double precision,
    fails_on_expiry boolean,
    expired_while text
  )
  language plpgsql volatile
  set enable_seqscan = off
  set enable_bitmapscan = off
  set plan_cache_mode = force_generic_plan
  set jit = off
  as $$
  #variable_conflict use_column
  begin
    perform set_config('synchronous_commit', 'off', true);
    return query
    with recursive priorities (priority) as (
      select coalesce(after_priority, (
        select a.priority
        from scheduled_actions a
        where a.status = 'pending' and a.lock_group is null and a.parked_by is null
        order by a.priority
        limit 1
      ))
      union all
      select (
        select a.priority
        from scheduled_actions a
        where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority > p.priority
        order by a.priority
        limit 1
      )
      from priorities p
      where p.priority is not null
    ),
    due as materialized (
      select c.id, c.series_id
      from priorities p
      cross join lateral (
        select a.id, case when a.limit_keys is null then a.schedule_id end as series_id
        from scheduled_actions a
        where a.status = 'pending'
          and a.lock_group is null
          and a.parked_by is null
          and a.priority = p.priority
          and a.scheduled_at <= scheduled_actions_now()
          and (a.scheduled_at, a.id) > (
            case when p.priority = after_priority then after_at else '-infinity' end,
            case when p.priority = after_priority then after_id
              else '00000000-0000-0000-0000-000000000000' end
          )
          and a.action_type <> all (excluded)
          -- include: actions/not_of_executor
          -- include: actions/not_paused
        order by a.scheduled_at, a.id
        limit wanted
        for update of a skip locked
      ) c
      limit wanted
    )
    update scheduled_actions a
    set
      status = case when a.limit_keys is null then 'processing' else 'pending' end,
      claim_token = case when a.limit_keys is null then token end,
      lease_expires_at = case when a.limit_keys is null then lease_ends_at end,
      dedup_open = a.dedup_open and a.limit_keys is not null,
      parked_by = case when a.limit_keys is not null then 'limit' end,
      updated_at = scheduled_actions_now()
    where a.id = any (array(select d.id from due d))
      and (with_series or not exists (select from due d where d.series_id is not null))
    returning
      -- include: actions/claim_columns
    ;
  end
  $$;
