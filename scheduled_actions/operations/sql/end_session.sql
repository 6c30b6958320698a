-- The session is ended. At most a thousand rows whose cookies have expired are deleted.
with removed as (
  delete from scheduled_action_ended_sessions o
  where o.id = any (array(
    select e.id
    from scheduled_action_ended_sessions e
    where e.ended_at < scheduled_actions_now() - make_interval(secs => %(lifetime_seconds)s)
    order by e.ended_at
    limit 1000
    for update skip locked))
)
insert into scheduled_action_ended_sessions (id) values (%(id)s) on conflict do nothing
