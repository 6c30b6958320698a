-- At most `wanted` due actions without a lock group are claimed by this tick, by priority and then by time. The scan
-- starts after the tick's last position and skips actions locked by other transactions.
-- Unless `with_series` is true, nothing is claimed if an occurrence of a series is among them, because that requires a
-- transaction.
with recursive priorities (priority) as (
  select coalesce(%(after_priority)s::smallint, (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null
    order by a.priority
    limit 1
  ))
  union all
  select (
    select a.priority
    from scheduled_actions a
    where a.status = 'pending' and a.lock_group is null and a.priority > p.priority
    order by a.priority
    limit 1
  )
  from priorities p
  where p.priority is not null
),
due as materialized (
  select c.id, c.schedule_id
  from priorities p
  cross join lateral (
    select a.id, a.schedule_id
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group is null
      and a.priority = p.priority
      and a.scheduled_at <= scheduled_actions_now()
      and (a.scheduled_at, a.id) > (
        case when p.priority = %(after_priority)s::smallint then %(after_at)s::timestamptz else '-infinity' end,
        case when p.priority = %(after_priority)s::smallint then %(after_id)s::uuid
          else '00000000-0000-0000-0000-000000000000' end
      )
      and a.action_type <> all (%(excluded)s::text[])
    order by a.scheduled_at, a.id
    limit %(wanted)s
    for update of a skip locked
  ) c
  limit %(wanted)s
)
update scheduled_actions a
set
  status = 'processing',
  claim_token = %(token)s,
  lease_expires_at = %(lease_expires_at)s,
  dedup_open = false,
  updated_at = scheduled_actions_now()
where a.id = any (array(select d.id from due d))
  and (%(with_series)s or not exists (select from due d where d.schedule_id is not null))
returning
  -- include: actions/claim_columns
