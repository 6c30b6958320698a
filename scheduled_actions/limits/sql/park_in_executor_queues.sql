-- At most `most` actions in the queues of executors that a pause holds back are parked by it, so that their claims do not
-- read past them. Reads the first `per_queue` actions of each queue. Returns the number parked.
with
-- include: limits/active_pauses,
held as materialized (
  select a.id
  from scheduled_action_executors e
  cross join lateral (
    select w.id, w.action_type, w.team_id, w.lock_group
    from scheduled_actions w
    where w.status = 'pending' and w.parked_by = 'queue:' || e.name
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
  where a.id = any (array(select h.id from held h)) and a.status = 'pending' and a.parked_by like 'queue:%%'
  for update of a skip locked
),
parked as (
  update scheduled_actions a
  set parked_by = (
    -- include: limits/pause_of
  )::text
  where a.id = any (array(select l.id from locked l))
)
select count(*) from locked
