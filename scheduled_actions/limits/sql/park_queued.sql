-- At most `most` actions in the queues of limit keys that a pause holds back are parked by it, so that claims do not read
-- past them. Reads the front of at most `most_queues` queues after a position: at most `per_queue` actions of each.
-- Returns the number parked, and the last queue read: null if there are no further queues.
with recursive queue (limit_key, team_id, number) as (
  (
    select a.limit_keys[1], coalesce(a.team_id, ''), 1
    from scheduled_actions a
    where a.status = 'pending'
      and a.parked_by = 'limit'
      and (a.limit_keys[1], coalesce(a.team_id, '')) > (%(after_key)s::text, %(after_team)s::text)
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
  where q.number < %(most_queues)s
),
-- include: limits/active_pauses,
held as materialized (
  select a.id
  from queue q
  cross join lateral (
    select w.id, w.action_type, w.team_id, w.lock_group
    from scheduled_actions w
    where w.status = 'pending'
      and w.parked_by = 'limit'
      and w.limit_keys[1] = q.limit_key
      and coalesce(w.team_id, '') = q.team_id
    order by w.priority, w.scheduled_at, w.id
    limit %(per_queue)s
  ) a
  where exists (
    -- include: limits/pause_of
  )
  limit %(most)s
),
locked as materialized (
  select a.id
  from scheduled_actions a
  where a.id = any (array(select h.id from held h)) and a.status = 'pending' and a.parked_by = 'limit'
  for update of a skip locked
),
parked as (
  update scheduled_actions a
  set parked_by = (
    -- include: limits/pause_of
  )::text
  where a.id = any (array(select l.id from locked l))
)
select (select count(*) from locked), q.limit_key, q.team_id
from (select 1) one
left join queue q on q.number = %(most_queues)s
