-- Returns the number of actions by type and status, at most `most` per status. Each part reads its own index; the
-- `order by` makes the planner use it.
select c.status, c.action_type, count(*)
from (
  (
    select f.status, f.action_type
    from scheduled_actions f
    where f.status = 'pending' and f.lock_group is null and f.parked_by is null
    order by f.priority, f.scheduled_at, f.id
    limit %(most)s
  )
  union all
  (
    select g.status, g.action_type
    from scheduled_actions g
    where g.status = 'pending' and g.lock_group is not null and g.parked_by is null
    order by g.priority, g.scheduled_at, g.id
    limit %(most)s
  )
  union all
  (
    select k.status, k.action_type
    from scheduled_actions k
    where k.status = 'pending' and k.parked_by is not null
    order by k.parked_by, k.priority, k.scheduled_at, k.id
    limit %(most)s
  )
  union all
  (
    select p.status, p.action_type
    from scheduled_actions p
    where p.status = 'processing'
    order by p.lease_expires_at
    limit %(most)s
  )
  union all
  (
    select n.status, n.action_type
    from scheduled_actions n
    where n.status = 'no_action'
    order by n.action_type
    limit %(most)s
  )
  union all
  (
    select e.status, e.action_type
    from unnest(array['completed', 'failed', 'cancelled', 'skipped']) s (status)
    cross join lateral (
      select d.status, d.action_type
      from scheduled_actions d
      where d.status = s.status and d.completed_at is not null
      order by d.completed_at desc
      limit %(most)s
    ) e
  )
) c
group by c.status, c.action_type
