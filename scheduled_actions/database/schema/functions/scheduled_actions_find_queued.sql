-- Returns due actions from the queues of limit keys that are open now, at most `wanted`, in the order of the claim; locks
-- nothing. With `executor`, those that its workers run; without, those that ticks run. Visits at most `most_queues` queues
-- after a position, and at most 500 of these actions of each, among the first 5,000.
-- Each row has the scopes of its keys, and whether the action has kept its lock group. The last row has no id: it has the
-- last queue visited if there may be further ones, and the seconds until the rate of one of the visited queues allows a
-- start.
-- This is a function, so that a session plans it only once: planning takes several times as long as a usual execution.
create or replace function scheduled_actions_find_queued(
  wanted integer,
  after_key text,
  after_team text,
  excluded text[],
  left_out text[],
  passed_over uuid[],
  most_queues integer,
  executor text default null
)
  returns table (
    id uuid, limit_keys text[], scopes text[], team_id text, lock_group text, holds_group boolean,
    opens_in_seconds double precision, priority smallint, scheduled_epoch double precision
  )
  language plpgsql stable
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
  set jit = off
  as $$
  #variable_conflict use_column
  begin
    return query
    with recursive queue (limit_key, team_id, number) as (
      (
        select a.limit_keys[1], coalesce(a.team_id, ''), 1
        from scheduled_actions a
        where a.status = 'pending'
          and a.parked_by = 'limit'
          and (a.limit_keys[1], coalesce(a.team_id, '')) > (after_key, after_team)
        order by a.limit_keys[1], coalesce(a.team_id, '')
        limit 1
      )
      union all
      select n.limit_key, n.team_id, q.number + 1
      from queue q
      cross join lateral (
        select a.limit_keys[1] as limit_key, coalesce(a.team_id, '') as team_id
        from scheduled_actions a
        where a.status = 'pending'
          and a.parked_by = 'limit'
          and (a.limit_keys[1], coalesce(a.team_id, '')) > (q.limit_key, q.team_id)
        order by a.limit_keys[1], coalesce(a.team_id, '')
        limit 1
      ) n
      where q.number < most_queues
    ),
    visited as materialized (
      select q.limit_key, q.team_id, q.number, l.scope, l.room, l.opens_at, l.pause_id, l.at_once, l.in_use
      from queue q
      cross join lateral scheduled_actions_limit(q.limit_key, q.team_id) l
    ),
    open_queue as materialized (
      select v.limit_key, v.team_id, v.scope, v.room
      from visited v
      where v.room > 0 and v.team_id <> all (left_out)
    ),
    found as materialized (
      select f.*, o.scope
      from open_queue o
      cross join lateral (
        select a.id, a.limit_keys, a.team_id, a.lock_group, a.priority, a.scheduled_at
        from (
          select q.*
          from (
            select w.*
            from scheduled_actions w
            where w.status = 'pending'
              and w.parked_by = 'limit'
              and w.limit_keys[1] = o.limit_key
              and coalesce(w.team_id, '') = o.team_id
            order by w.priority, w.scheduled_at, w.id
            limit 5000
          ) q
          where (
            q.action_type like any (array(
              select unnest(e.type_patterns)
              from scheduled_action_executors e
              where scheduled_actions_find_queued.executor is null or e.name = scheduled_actions_find_queued.executor
            ))
          ) = (scheduled_actions_find_queued.executor is not null)
          limit 500
        ) a
        where a.scheduled_at <= scheduled_actions_now()
          and a.action_type <> all (excluded)
          and a.id <> all (passed_over)
          and (
            cardinality(a.limit_keys) = 1
            or not exists (
              select
              from unnest(a.limit_keys[2:]) k (limit_key)
              cross join lateral scheduled_actions_limit(k.limit_key, a.team_id) l
              where l.room = 0
            )
          )
          and (
            a.lock_group is null
            -- A member that kept the group while it was pending goes before members that are due earlier.
            or exists (select from scheduled_action_holds h where h.action_id = a.id and h.busy_until is null)
            or not exists (
              select
              from scheduled_action_holds h
              where h.team_id = coalesce(a.team_id, '') and h.lock_group = a.lock_group
            )
            and a.id = (
              -- include: actions/first_member
            )
          )
          -- include: actions/not_paused
        limit least(o.room, wanted)
      ) f
      order by f.priority, f.scheduled_at, f.id
      limit wanted
    )
    select
      f.id, f.limit_keys,
      case when cardinality(f.limit_keys) = 1 then array[f.scope]
        else array(
          select l.scope
          from unnest(f.limit_keys) with ordinality k (limit_key, number)
          cross join lateral scheduled_actions_limit(k.limit_key, f.team_id) l
          order by k.number
        )
      end,
      f.team_id, f.lock_group,
      f.lock_group is not null and exists (select from scheduled_action_holds h where h.action_id = f.id),
      null::float8, f.priority, date_part('epoch', f.scheduled_at)
    from found f
    union all
    select
      null, array_agg(v.limit_key) filter (where v.number = most_queues),
      array_agg(v.team_id) filter (where v.number = most_queues), null, null, null,
      extract(epoch from min(v.opens_at) filter (
        where v.room = 0 and v.pause_id is null and coalesce(v.in_use < v.at_once, true)
      ) - scheduled_actions_now())::float8,
      null, null
    from visited v
    order by 8, 9, 1;
  end
  $$;
