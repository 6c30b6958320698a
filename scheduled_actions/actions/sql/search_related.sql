-- Returns the number of candidates, the last of them, and the ids of the newest matches. The candidates are the newest
-- actions before the cursor that match the filter `source`, at most `candidate_limit`. For a schedule or a deadline, whose
-- indexes are in another order, they are all its actions; if their number reaches `candidate_limit`, no matches are
-- returned.
with candidates as materialized (
  -- The `order by` makes the planner use the index of the filter.
  (
    select p.id
    from scheduled_actions p
    where %(source)s::text = 'scheduled_by'
      and p.scheduled_by = %(scheduled_by)s
      and p.id < coalesce(%(before)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by p.id desc nulls last
    limit %(candidate_limit)s
  )
  union all
  (
    select t.id
    from scheduled_actions t
    where %(source)s::text = 'target'
      and t.target_type = %(target_type)s
      and t.target_id = %(target_id)s
      and t.id < coalesce(%(before)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by t.id desc nulls last
    limit %(candidate_limit)s
  )
  union all
  (
    select u.id
    from scheduled_actions u
    where %(source)s::text = 'user_id'
      and u.user_id = %(user_id)s
      and u.id < coalesce(%(before)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    order by u.id desc nulls last
    limit %(candidate_limit)s
  )
  union all
  (
    select d.id
    from scheduled_actions d
    where %(source)s::text = 'deadline_id' and d.deadline_id = %(deadline_id)s
    order by d.deadline_stage
    limit %(candidate_limit)s
  )
  union all
  (
    select s.id
    from scheduled_actions s
    where %(source)s::text = 'schedule_id' and s.schedule_id = %(schedule_id)s
    order by s.occurrence_at desc
    limit %(candidate_limit)s
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
    where (
        %(source)s::text not in ('deadline_id', 'schedule_id')
        or (select count(*) from candidates m) < %(candidate_limit)s
      )
      and (%(before)s::uuid is null or a.id < %(before)s)
      and (%(statuses)s::text[] is null or a.status = any (%(statuses)s::text[]))
      -- include: actions/search_filters
    order by a.id desc
    limit %(limit)s
  )
