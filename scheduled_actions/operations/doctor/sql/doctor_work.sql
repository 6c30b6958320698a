-- Returns the work that needs attention: the number of actions that failed within the last day (at most `most`), action
-- types without a handler, types of which one of the latest `most_results` actions of the last day completed with a
-- result that only reports a failure (as the rule `reports_failure` defines it), schedules paused after failures or with a
-- call from SQL that was refused or is not applied after five minutes, those whose occurrences are skipped because the previous one failed or was cancelled, with
-- that action and its age in seconds, deadlines with such a call (a cancelled one: within the last
-- day), and webhook endpoints disabled after failures (the latest `most_names`).
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
    select r.action_type
    from (
      select c.action_type, c.result
      from scheduled_actions c
      where c.status = 'completed' and c.completed_at > scheduled_actions_now() - interval '1 day'
      order by c.completed_at desc
      limit %(most_results)s
    ) r
    where case
      when jsonb_typeof(r.result) = 'object'
        then r.result -> 'success' = 'false' and r.result - array['success', 'error', 'reason'] = '{}'
      else false
    end
    group by r.action_type
    order by r.action_type
    limit %(most_names)s
  ),
  array(
    select coalesce(s.name, s.id::text)
    from scheduled_action_schedules s
    where s.status = 'paused' and (s.consecutive_failures > 0 or s.status_by = 'schedule:apply')
      or s.requested is not null and s.updated_at <= scheduled_actions_now() - interval '5 minutes'
    order by s.status_at desc nulls last
    limit %(most_names)s
  ),
  array(
    select jsonb_build_array(
      coalesce(s.name, s.id::text), p.id, p.status, extract(epoch from scheduled_actions_now() - p.updated_at))
    from scheduled_action_schedules s
    cross join lateral (
      -- include: schedules/previous_occurrence
    ) p
    where s.status = 'active' and p.status in ('failed', 'cancelled')
    order by p.updated_at desc
    limit %(most_names)s
  ),
  array(
    select coalesce(d.name, d.id::text)
    from scheduled_action_deadlines d
    where d.requested is not null
      and case
        when d.closed_at is null then d.updated_at <= scheduled_actions_now() - interval '5 minutes'
        else d.closed_at > scheduled_actions_now() - interval '1 day'
      end
    order by d.id desc
    limit %(most_names)s
  ),
  array(
    select e.endpoint
    from webhook_endpoint_states e
    where e.disabled_at is not null
    order by e.disabled_at desc
    limit %(most_names)s
  )
