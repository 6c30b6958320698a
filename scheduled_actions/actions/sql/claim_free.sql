-- At most `wanted` due actions without a lock group are claimed by this tick, by priority and then by time. The scan
-- starts after the tick's last position and skips actions locked by other transactions.
-- Actions with limit keys are not claimed but parked in the queue of their first key; they are returned, too.
-- Unless `with_series` is true, nothing is claimed if an occurrence of a series is among them, because that requires a
-- transaction.
with recursive priorities (priority) as (
  select coalesce(%(after_priority)s::smallint, (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null
    order by a.priority
    limit 1
  ))
  union all
  select (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.parked_by is null and a.priority > p.priority
    order by a.priority
    limit 1
  )
  from priorities p
  where p.priority is not null
),
due as materialized (
  select c.id, c.series_id
  from priorities p
  cross join lateral (
    select a.id, case when a.limit_keys is null then a.schedule_id end as series_id
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group is null
      and a.parked_by is null
      and a.priority = p.priority
      and a.scheduled_at <= scheduled_actions_now()
      and (a.scheduled_at, a.id) > (
        case when p.priority = %(after_priority)s::smallint then %(after_at)s::timestamptz else '-infinity' end,
        case when p.priority = %(after_priority)s::smallint then %(after_id)s::uuid
          else '00000000-0000-0000-0000-000000000000' end
      )
      and a.action_type <> all (%(excluded)s::text[])
      -- include: actions/not_paused
    order by a.scheduled_at, a.id
    limit %(wanted)s
    for update of a skip locked
  ) c
  limit %(wanted)s
)
update scheduled_actions a
set
  status = case when a.limit_keys is null then 'processing' else 'pending' end,
  claim_token = case when a.limit_keys is null then %(token)s::uuid end,
  lease_expires_at = case when a.limit_keys is null then %(lease_expires_at)s::timestamptz end,
  dedup_open = a.dedup_open and a.limit_keys is not null,
  parked_by = case when a.limit_keys is not null then 'limit' end,
  updated_at = scheduled_actions_now()
where a.id = any (array(select d.id from due d))
  and (%(with_series)s or not exists (select from due d where d.series_id is not null))
returning
  -- include: actions/claim_columns
