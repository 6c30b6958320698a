-- What there may be for a tick to do, each an answer of yes or no: one that finds nothing asks little more than this.
-- `may_have_due` says yes, too, where actions of several priorities wait: that takes a walk from one to the next.
select
  coalesce((
    select
      exists (
        select
        from scheduled_actions a
        where a.status = 'pending' and a.lock_group is null and a.priority = f.priority
          and a.scheduled_at <= scheduled_actions_now()
      )
      or exists (
        select from scheduled_actions a where a.status = 'pending' and a.lock_group is null and a.priority > f.priority
      )
    from (
      select a.priority
      from scheduled_actions a
      where a.status = 'pending' and a.lock_group is null
      order by a.priority
      limit 1
    ) f
  ), false)
  or coalesce((
    select
      exists (
        select
        from scheduled_actions a
        where a.status = 'pending' and a.lock_group is not null and a.priority = f.priority
          and a.scheduled_at <= scheduled_actions_now()
      )
      or exists (
        select from scheduled_actions a where a.status = 'pending' and a.lock_group is not null and a.priority > f.priority
      )
    from (
      select a.priority
      from scheduled_actions a
      where a.status = 'pending' and a.lock_group is not null
      order by a.priority
      limit 1
    ) f
  ), false) as may_have_due,
  exists (
    select from scheduled_actions a where a.status = 'processing' and a.lease_expires_at < scheduled_actions_now()
  ) as has_expired,
  exists (
    select from scheduled_action_ticks t where t.finished_at is null and t.lease_expires_at < scheduled_actions_now()
  ) as has_lost_ticks,
  exists (
    select
    from scheduled_action_holds h
    where h.busy_until < scheduled_actions_now()
      or h.busy_until is null and h.acquired_at < scheduled_actions_now() - interval '1 minute'
  ) as has_old_holds,
  exists (
    select from scheduled_actions a where a.status = 'no_action' and a.action_type = any (%(action_types)s::text[])
  ) as has_unhandled,
  exists (
    select
    from scheduled_actions a
    where a.status in ('completed', 'cancelled', 'skipped')
      and a.completed_at < scheduled_actions_now() - make_interval(days => %(retention_days)s)
  )
  or exists (
    select
    from scheduled_actions a
    where a.status = 'failed'
      and a.completed_at < scheduled_actions_now() - make_interval(days => %(retention_failed_days)s)
  )
  or exists (
    select
    from scheduled_action_ticks t
    where t.started_at < scheduled_actions_now() - make_interval(days => %(retention_days)s) and t.finished_at is not null
  ) as has_prunable
