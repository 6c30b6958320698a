-- At most `most` due actions that a pause holds back are parked by it, so that claims do not read past them; those of
-- executors in the queues of these, or of their limit keys. Reads at most `window` due actions without a lock group and as
-- many with one, after a position in the order of the claims.
-- Returns the number parked, and the position for the next statement: null if there are no further due actions.
with recursive
-- include: actions/waiting_priorities,
-- include: limits/active_pauses,
free_seen as materialized (
  select c.*
  from free f
  cross join lateral (
    select a.id, a.priority, a.scheduled_at, a.action_type, a.team_id, a.lock_group
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group is null
      and a.parked_by is null
      and a.priority = f.priority
      and a.scheduled_at <= scheduled_actions_now()
      and (a.scheduled_at, a.id) > (
        case when f.priority = %(after_priority)s::smallint then %(after_at)s::timestamptz else '-infinity' end,
        case when f.priority = %(after_priority)s::smallint then %(after_id)s::uuid
          else '00000000-0000-0000-0000-000000000000' end
      )
    order by a.scheduled_at, a.id
    limit %(window)s
  ) c
  where f.priority >= coalesce(%(after_priority)s::smallint, f.priority)
  limit %(window)s
),
grouped_seen as materialized (
  select c.*
  from grouped g
  cross join lateral (
    select a.id, a.priority, a.scheduled_at, a.action_type, a.team_id, a.lock_group
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group is not null
      and a.parked_by is null
      and a.priority = g.priority
      and a.scheduled_at <= scheduled_actions_now()
      and (a.scheduled_at, a.id) > (
        case when g.priority = %(after_priority)s::smallint then %(after_at)s::timestamptz else '-infinity' end,
        case when g.priority = %(after_priority)s::smallint then %(after_id)s::uuid
          else '00000000-0000-0000-0000-000000000000' end
      )
    order by a.scheduled_at, a.id
    limit %(window)s
  ) c
  where g.priority >= coalesce(%(after_priority)s::smallint, g.priority)
  limit %(window)s
),
executors as materialized (
  select e.type_patterns from scheduled_action_executors e where not e.is_returning
),
held as materialized (
  select a.id, a.priority, a.scheduled_at
  from (select * from free_seen union all select * from grouped_seen) a
  where exists (
    -- include: limits/pause_of
  )
  or a.action_type like any (array(select unnest(e.type_patterns) from executors e))
  order by a.priority, a.scheduled_at, a.id
  limit %(most)s
),
-- Locked only if there is an action to park. Otherwise, types could be removed from an executor, and its queue return,
-- before this statement commits.
queues as materialized (
  select e.name, e.type_patterns
  from scheduled_action_executors e
  where not e.is_returning and exists (select from held)
  for share of e skip locked
),
locked as materialized (
  select a.id
  from scheduled_actions a
  where a.id = any (array(select h.id from held h))
    and a.status = 'pending'
    and a.parked_by is null
    and a.scheduled_at <= scheduled_actions_now()
  for update of a skip locked
),
parked as (
  update scheduled_actions a
  set parked_by = coalesce(
    (
      -- include: limits/pause_of
    )::text,
    (
      select case when a.limit_keys is null then 'queue:' || q.name else 'limit' end
      from queues q
      where a.action_type like any (q.type_patterns)
      order by q.name
      limit 1
    )
  )
  where a.id = any (array(select l.id from locked l))
),
-- Where each list was cut off: the next statement continues after the first of them.
cut_off as (
  (select s.priority, s.scheduled_at, s.id from free_seen s
   order by s.priority, s.scheduled_at, s.id offset %(window)s - 1)
  union all
  (select s.priority, s.scheduled_at, s.id from grouped_seen s
   order by s.priority, s.scheduled_at, s.id offset %(window)s - 1)
  union all
  (select h.priority, h.scheduled_at, h.id from held h
   order by h.priority, h.scheduled_at, h.id offset %(most)s - 1)
)
select (select count(*) from locked), c.priority, c.scheduled_at::text, c.id
from (select 1) one
left join (select * from cut_off order by 1, 2, 3 limit 1) c on true
