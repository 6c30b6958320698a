-- Returns the work that needs attention: the number of actions that failed within the last day (at most `most`), action
-- types without a handler, schedules paused after failures, and webhook endpoints disabled after failures (the latest
-- `most_names`).
select
  (
    select count(*)
    from (
      select
      from scheduled_actions f
      where f.status = 'failed' and f.completed_at > scheduled_actions_now() - interval '1 day'
      limit %(most)s
    ) failed
  ),
  array(
    select n.action_type
    from (
      select o.action_type
      from scheduled_actions o
      where o.status = 'no_action'
      order by o.action_type
      limit %(most)s
    ) n
    group by n.action_type
    order by n.action_type
    limit %(most_names)s
  ),
  array(
    select coalesce(s.name, s.id::text)
    from scheduled_action_schedules s
    where s.status = 'paused' and s.consecutive_failures > 0
    order by s.status_at desc
    limit %(most_names)s
  ),
  array(
    select e.endpoint
    from webhook_endpoint_states e
    where e.disabled_at is not null
    order by e.disabled_at desc
    limit %(most_names)s
  )
