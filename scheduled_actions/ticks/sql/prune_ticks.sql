-- At most `limit` ended ticks past the retention are deleted, the oldest first, and at most as many event types that were
-- not emitted for `unseen_days`.
with forgotten as (
  delete from webhook_event_types t
  where (t.team_id, t.event) in (
    select o.team_id, o.event
    from webhook_event_types o
    where o.last_seen_at < scheduled_actions_now() - make_interval(days => %(unseen_days)s)
    order by o.last_seen_at
    limit %(limit)s
    for update skip locked
  )
)
delete from scheduled_action_ticks t
where t.id = any (array(
  select o.id
  from scheduled_action_ticks o
  where o.started_at < scheduled_actions_now() - make_interval(days => %(retention_days)s) and o.finished_at is not null
  order by o.started_at
  limit %(limit)s
))
