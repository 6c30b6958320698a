-- What is on its way to each of the endpoints: in flight, waiting, and of these put off, until when and why. Of what waits
-- that is looked at which is due next, `most` of what is in a lock group and of the rest: each part walks an index of its
-- own, and the order keeps the planner to it. The last column tells whether that was all.
with waiting as (
  (
    select
      false as is_grouped, f.team_id, f.scheduled_at,
      case when f.action_type = 'webhook:send' then f.payload ->> 'endpoint' end as endpoint,
      -- A snooze that no attempt has followed.
      case when f.action_type = 'webhook:send' and f.history -> -1 ->> 'outcome' = 'snoozed'
        then f.state ->> 'put_off' end as put_off
    from scheduled_actions f
    where f.status = 'pending' and f.lock_group is null
    order by f.priority, f.scheduled_at, f.id
    limit %(most)s
  )
  union all
  (
    select
      true, g.team_id, g.scheduled_at,
      case when g.action_type = 'webhook:send' then g.payload ->> 'endpoint' end,
      case when g.action_type = 'webhook:send' and g.history -> -1 ->> 'outcome' = 'snoozed'
        then g.state ->> 'put_off' end
    from scheduled_actions g
    where g.status = 'pending' and g.lock_group is not null
    order by g.priority, g.scheduled_at, g.id
    limit %(most)s
  )
),
found as (
  select
    w.endpoint, w.team_id, w.scheduled_at,
    case when w.scheduled_at > scheduled_actions_now() then w.put_off end as put_off
  from waiting w
  where w.endpoint = any (%(endpoints)s::text[])
  union all
  select p.payload ->> 'endpoint', p.team_id, null, null
  from scheduled_actions p
  where p.status = 'processing' and p.action_type = 'webhook:send' and p.payload ->> 'endpoint' = any (%(endpoints)s::text[])
),
lane as (
  select
    n.name,
    count(*) filter (where f.endpoint is not null and f.scheduled_at is null) as in_flight,
    count(f.scheduled_at) as waiting,
    min(f.scheduled_at) as next_attempt_at,
    count(f.put_off) as put_off,
    min(f.scheduled_at) filter (where f.put_off is not null) as put_off_until,
    (array_agg(f.put_off order by f.scheduled_at) filter (where f.put_off is not null))[1] as put_off_reason
  from unnest(%(endpoints)s::text[]) n (name)
  left join webhook_endpoints e on e.id::text = n.name
  left join found f on f.endpoint = n.name and (e.team_id is null or f.team_id = e.team_id)
  group by n.name
)
select
  l.name,
  l.in_flight,
  -- Whoever put it off because it hung begins with one again.
  case when l.put_off_reason = 'hung' then 1 else %(concurrency)s end,
  l.waiting,
  l.next_attempt_at,
  l.put_off,
  l.put_off_until,
  l.put_off_reason,
  (
    select count(*) filter (where w.is_grouped) < %(most)s and count(*) filter (where not w.is_grouped) < %(most)s
    from waiting w
  )
from lane l
