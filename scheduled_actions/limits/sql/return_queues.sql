-- At most `most` actions in the queues of executors that return to the claims are in the claims again, in order. Returns the
-- number of actions found, and how many of them were locked by other transactions.
with found as materialized (
  select c.id
  from scheduled_action_executors e
  cross join lateral (
    select a.id, a.priority, a.scheduled_at
    from scheduled_actions a
    where a.status = 'pending' and a.parked_by = 'queue:' || e.name
    order by a.priority, a.scheduled_at, a.id
    limit %(most)s
  ) c
  where e.is_returning
  order by c.priority, c.scheduled_at, c.id
  limit %(most)s
),
locked as materialized (
  select a.id
  from scheduled_actions a
  where a.id = any (array(select f.id from found f)) and a.status = 'pending' and a.parked_by like 'queue:%%'
  for update of a skip locked
),
returned as (
  update scheduled_actions a
  set parked_by = null
  where a.id = any (array(select l.id from locked l))
)
select (select count(*) from found), (select count(*) from found) - (select count(*) from locked)
