-- What there may be for a tick to do, each an answer of yes or no. A tick that `may_be_idle` and finds nothing has its row now,
-- begun and ended at once, and is `noted`: it asks the database nothing more.
-- `may_have_due` says yes, too, where actions of several priorities wait: that takes a walk from one to the next.
-- Each asks for the first of its index: of an `exists` that finds nothing, old statistics may make a walk over the table.
with found as materialized (
  select
    coalesce((
      select
        f.scheduled_at <= scheduled_actions_now()
        or f.priority < (
          select a.priority
          from scheduled_actions a
          where a.status = 'pending' and a.lock_group is null
          order by a.priority desc
          limit 1
        )
      from (
        select a.priority, a.scheduled_at
        from scheduled_actions a
        where a.status = 'pending' and a.lock_group is null
        order by a.priority, a.scheduled_at
        limit 1
      ) f
    ), false)
    or coalesce((
      select
        f.scheduled_at <= scheduled_actions_now()
        or f.priority < (
          select a.priority
          from scheduled_actions a
          where a.status = 'pending' and a.lock_group is not null
          order by a.priority desc
          limit 1
        )
      from (
        select a.priority, a.scheduled_at
        from scheduled_actions a
        where a.status = 'pending' and a.lock_group is not null
        order by a.priority, a.scheduled_at
        limit 1
      ) f
    ), false) as may_have_due,
    coalesce((
      select a.lease_expires_at from scheduled_actions a where a.status = 'processing' order by a.lease_expires_at limit 1
    ) < scheduled_actions_now(), false) as has_expired,
    coalesce((
      select t.lease_expires_at from scheduled_action_ticks t where t.finished_at is null order by t.lease_expires_at limit 1
    ) < scheduled_actions_now(), false) as has_lost_ticks,
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
      from (values
        ('completed', %(retention_days)s), ('cancelled', %(retention_days)s), ('skipped', %(retention_days)s),
        ('failed', %(retention_failed_days)s)
      ) kept (status, days)
      where (
        select a.completed_at
        from scheduled_actions a
        where a.status = kept.status and a.completed_at is not null
        order by a.completed_at
        limit 1
      ) < scheduled_actions_now() - make_interval(days => kept.days)
    )
    or coalesce((
      select t.started_at from scheduled_action_ticks t where t.finished_at is not null order by t.started_at limit 1
    ) < scheduled_actions_now() - make_interval(days => %(retention_days)s), false) as has_prunable
),
noted as (
  insert into scheduled_action_ticks (id, started_at, finished_at, lease_expires_at, caller, outcome, counts, budget)
  select
    %(tick_id)s, scheduled_actions_now(), scheduled_actions_now(), scheduled_actions_now(), %(caller)s, 'finished',
    %(counts)s::jsonb, %(budget)s::jsonb
  from found f
  where %(may_be_idle)s
    and not (
      f.may_have_due or f.has_expired or f.has_lost_ticks or f.has_old_holds or f.has_unhandled or f.has_prunable
    )
  returning id
)
select f.*, exists (select from noted) as is_noted
from found f
