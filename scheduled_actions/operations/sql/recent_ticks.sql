-- Returns how the ticks of the last `seconds` ended, from at most `limit` ticks, and the start and duration of the
-- latest tick.
select
  (
    select coalesce(jsonb_object_agg(g.outcome, g.number), '{}')
    from (
      select r.outcome, count(*) as number
      from (
        select
          case
            when t.outcome is null and t.lease_expires_at < scheduled_actions_now() then 'lost'
            else coalesce(t.outcome, 'running') end as outcome
        from scheduled_action_ticks t
        where t.started_at > scheduled_actions_now() - make_interval(secs => %(seconds)s)
        order by t.started_at desc
        limit %(limit)s
      ) r
      group by r.outcome
    ) g
  ),
  (
    select extract(epoch from l.started_at)::double precision
    from scheduled_action_ticks l
    order by l.started_at desc
    limit 1
  ),
  (
    select extract(epoch from f.finished_at - f.started_at)::double precision
    from scheduled_action_ticks f
    order by f.started_at desc
    limit 1
  )
