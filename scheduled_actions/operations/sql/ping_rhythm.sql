-- Returns whether a listener is active, whether a tick waits for actions to become due, and the median time between the
-- latest pings by crons in seconds (null without two pings in the last hour).
with recent as (
  select t.started_at - lag(t.started_at) over (order by t.started_at) as gap
  from (
    select started_at
    from scheduled_action_ticks
    where started_at > scheduled_actions_now() - interval '1 hour'
      and coalesce(caller, '') !~ '^(cli:|dashboard|listen|scheduled-actions-wake)'
    order by started_at desc
    limit %(limit)s
  ) t
),
lease as (
  select s.value ->> 0 like 'listen:%%' as is_of_listener, s.updated_at
  from scheduled_action_settings s
  where s.name = 'linger_lease'
)
select
  exists (
    select from lease l
    where l.is_of_listener and l.updated_at > scheduled_actions_now() - interval '5 seconds'
  ),
  exists (
    select from lease l
    join scheduled_action_ticks t
      on t.finished_at is null and t.lease_expires_at > scheduled_actions_now() and t.started_at <= l.updated_at
    where not l.is_of_listener
  ),
  (select extract(epoch from percentile_cont(0.5) within group (order by r.gap))::double precision from recent r)
