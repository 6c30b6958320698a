-- Returns the queue of each endpoint: deliveries in flight, pending and deferred; until when and why the first one is
-- deferred. Reads at most `most` pending actions per endpoint by index, those due first. The last column is true if all of them were read.
with in_flight as materialized (
  select p.payload ->> 'endpoint' as endpoint, p.team_id
  from scheduled_actions p
  where p.status = 'processing' and p.action_type = 'webhook:send' and p.payload ->> 'endpoint' = any (%(endpoints)s::text[])
)
select
  n.name,
  (select count(*) from in_flight i where i.endpoint = n.name and (e.team_id is null or i.team_id = e.team_id)),
  -- An endpoint that was deferred because it hung starts again with one delivery.
  case when w.deferred_reason = 'hung' then 1 else %(concurrency)s end,
  w.waiting,
  w.next_attempt_at,
  w.deferred,
  w.deferred_until,
  w.deferred_reason,
  w.looked_at < %(most)s
from unnest(%(endpoints)s::text[]) n (name)
left join webhook_endpoints e on e.id::text = n.name
cross join lateral (
  select
    count(*) as looked_at,
    count(*) filter (where d.is_of_team) as waiting,
    min(d.scheduled_at) filter (where d.is_of_team) as next_attempt_at,
    count(d.deferred) filter (where d.is_of_team) as deferred,
    min(d.scheduled_at) filter (where d.is_of_team and d.deferred is not null) as deferred_until,
    (array_agg(d.deferred order by d.scheduled_at) filter (where d.is_of_team and d.deferred is not null))[1] as deferred_reason
  from (
    select
      f.scheduled_at,
      e.team_id is null or f.team_id = e.team_id as is_of_team,
      -- A snooze without a later attempt.
      case when f.scheduled_at > scheduled_actions_now() and f.history -> -1 ->> 'outcome' = 'snoozed'
        then f.state ->> 'deferred' end as deferred
    from scheduled_actions f
    where f.status = 'pending' and f.action_type = 'webhook:send' and f.payload ->> 'endpoint' = n.name
    order by f.scheduled_at
    limit %(most)s
  ) d
) w
