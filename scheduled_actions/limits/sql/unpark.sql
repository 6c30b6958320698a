-- At most `most` actions parked by pauses that have ended return to the claims, or to the queue of their first limit key, in
-- the order of the claims. Returns the number of actions found, and how many of them were locked by other transactions.
with ended as materialized (
  select p.id from scheduled_action_pauses p where p.ends_at <= scheduled_actions_now()
),
found as materialized (
  select c.id
  from ended e
  cross join lateral (
    select a.id, a.priority, a.scheduled_at
    from scheduled_actions a
    where a.status = 'pending' and a.parked_by = e.id::text
    order by a.priority, a.scheduled_at, a.id
    limit %(most)s
  ) c
  order by c.priority, c.scheduled_at, c.id
  limit %(most)s
),
locked as materialized (
  select a.id
  from scheduled_actions a
  where a.id = any (array(select f.id from found f))
    and a.status = 'pending'
    and a.parked_by in (select e.id::text from ended e)
  for update of a skip locked
),
returned as (
  update scheduled_actions a
  set parked_by = case when a.limit_keys is not null and a.scheduled_at <= scheduled_actions_now() then 'limit' end
  where a.id = any (array(select l.id from locked l))
)
select (select count(*) from found), (select count(*) from found) - (select count(*) from locked)
