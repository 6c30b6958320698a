-- What is on its way to each of the endpoints: in flight, waiting, and of these put off, until when and why. Of what waits for
-- an endpoint that is looked at which is due next, `most` at the most, by an index of its own. The last column tells whether
-- that was all.
with in_flight as materialized (
  select p.payload ->> 'endpoint' as endpoint, p.team_id
  from scheduled_actions p
  where p.status = 'processing' and p.action_type = 'webhook:send' and p.payload ->> 'endpoint' = any (%(endpoints)s::text[])
)
select
  n.name,
  (select count(*) from in_flight i where i.endpoint = n.name and (e.team_id is null or i.team_id = e.team_id)),
  -- Whoever put it off because it hung begins with one again.
  case when w.put_off_reason = 'hung' then 1 else %(concurrency)s end,
  w.waiting,
  w.next_attempt_at,
  w.put_off,
  w.put_off_until,
  w.put_off_reason,
  w.looked_at < %(most)s
from unnest(%(endpoints)s::text[]) n (name)
left join webhook_endpoints e on e.id::text = n.name
cross join lateral (
  select
    count(*) as looked_at,
    count(*) filter (where d.is_of_team) as waiting,
    min(d.scheduled_at) filter (where d.is_of_team) as next_attempt_at,
    count(d.put_off) filter (where d.is_of_team) as put_off,
    min(d.scheduled_at) filter (where d.is_of_team and d.put_off is not null) as put_off_until,
    (array_agg(d.put_off order by d.scheduled_at) filter (where d.is_of_team and d.put_off is not null))[1] as put_off_reason
  from (
    select
      f.scheduled_at,
      e.team_id is null or f.team_id = e.team_id as is_of_team,
      -- A snooze that no attempt has followed.
      case when f.scheduled_at > scheduled_actions_now() and f.history -> -1 ->> 'outcome' = 'snoozed'
        then f.state ->> 'put_off' end as put_off
    from scheduled_actions f
    where f.status = 'pending' and f.action_type = 'webhook:send' and f.payload ->> 'endpoint' = n.name
    order by f.scheduled_at
    limit %(most)s
  ) d
) w
