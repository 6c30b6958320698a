-- The due actions that a pause `p` holds back: those parked by it, and those in the queue of its limit key; 10,000 each at most.
(
  select
  from scheduled_actions a
  where a.status = 'pending' and a.parked_by = p.id::text
  -- By the index; without an order, a scan of all actions would look as cheap.
  order by a.priority, a.scheduled_at, a.id
  limit 10000
)
union all
(
  select
  from scheduled_actions a
  where p.kind = 'limit'
    and a.status = 'pending'
    and a.parked_by = 'limit'
    and a.limit_keys[1] = p.name
    and (p.team_id is null or a.team_id = p.team_id)
  limit 10000
)
