-- Returns the number of candidates, the last of them, and the ids of the newest matches. With a team, the candidates
-- are its newest actions with the statuses before the cursor, at most `candidate_limit`. Without a team, they are all
-- actions with the statuses, at most `candidate_limit` per status; if their total reaches this limit, no matches are
-- returned.
with candidates as materialized (
  (
    select t.id
    from unnest(%(statuses)s::text[]) s (status)
    cross join lateral (
      select m.id
      from scheduled_actions m
      where m.team_id = %(team_id)s
        and m.status = s.status
        and m.id < coalesce(%(before)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
      order by m.id desc nulls last
      limit %(candidate_limit)s
    ) t
    where %(team_id)s::text is not null
    order by t.id desc
    limit %(candidate_limit)s
  )
  union all
  -- Each part reads its own index; the `order by` makes the planner use it.
  (
    select f.id
    from scheduled_actions f
    where %(team_id)s::text is null and 'pending' = any (%(statuses)s::text[])
      and f.status = 'pending' and f.lock_group is null and f.parked_by is null
    order by f.priority, f.scheduled_at, f.id
    limit %(candidate_limit)s
  )
  union all
  (
    select g.id
    from scheduled_actions g
    where %(team_id)s::text is null and 'pending' = any (%(statuses)s::text[])
      and g.status = 'pending' and g.lock_group is not null and g.parked_by is null
    order by g.priority, g.scheduled_at, g.id
    limit %(candidate_limit)s
  )
  union all
  (
    select k.id
    from scheduled_actions k
    where %(team_id)s::text is null and 'pending' = any (%(statuses)s::text[])
      and k.status = 'pending' and k.parked_by is not null
    order by k.parked_by, k.priority, k.scheduled_at, k.id
    limit %(candidate_limit)s
  )
  union all
  (
    select p.id
    from scheduled_actions p
    where %(team_id)s::text is null and 'processing' = any (%(statuses)s::text[])
      and p.status = 'processing'
    order by p.lease_expires_at
    limit %(candidate_limit)s
  )
  union all
  (
    select n.id
    from scheduled_actions n
    where %(team_id)s::text is null and 'no_action' = any (%(statuses)s::text[])
      and n.status = 'no_action'
    order by n.action_type
    limit %(candidate_limit)s
  )
  union all
  (
    select e.id
    from unnest(%(statuses)s::text[]) s (status)
    cross join lateral (
      select d.id
      from scheduled_actions d
      where d.status = s.status and d.completed_at is not null
      order by d.completed_at desc
      limit %(candidate_limit)s
    ) e
    where %(team_id)s::text is null and s.status in ('completed', 'failed', 'cancelled', 'skipped')
  )
)
select
  (select count(*) from candidates c),
  (select c.id from candidates c order by c.id limit 1),
  array(
    select a.id
    from candidates c
    -- Looked up by id, whatever number of rows the planner estimates.
    cross join lateral (
      select l.*
      from scheduled_actions l
      where l.id = c.id
      offset 0
    ) a
    where (%(team_id)s::text is not null or (select count(*) from candidates m) < %(candidate_limit)s)
      and (%(before)s::uuid is null or a.id < %(before)s)
      and a.status = any (%(statuses)s::text[])
      -- include: actions/search_filters
    order by a.id desc
    limit %(limit)s
  )
