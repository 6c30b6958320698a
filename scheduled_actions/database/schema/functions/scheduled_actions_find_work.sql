-- Returns the kinds of work that a tick may have to do. If a tick that `may_be_idle` finds no work, its row is inserted as
-- started and ended now (`is_recorded`), and the tick needs no other statement. That transaction's commit does not wait for
-- the disk, because nothing depends on the row.
-- `has_queued`: actions are in the queues of limit keys. `has_late`: a pending action has passed its expires_at.
-- `has_only_free`: the only work is due actions without a lock group. `has_teams`: any action, also an ended one, has a team.
-- `has_old_holds` also stands for slots that may be left over.
-- `may_park`: actions are due, and executors exist that may run them. `has_returning`: actions in the queues of executors
-- return to the claims.
-- Actions also count as due if pending ones have several priorities: the exact answer needs a scan over all of them.
-- Each part reads the first entry of an index regardless of the statistics, because the cached plan may date from when
-- the tables were small. This is a function, so that a session plans it only once: an empty tick runs little else.
create or replace function scheduled_actions_find_work(
  tick_id uuid,
  may_be_idle boolean,
  action_types text[],
  retention_days integer,
  retention_failed_days integer,
  caller text,
  counts jsonb,
  budget jsonb,
  out has_expired boolean,
  out has_lost_ticks boolean,
  out has_old_holds boolean,
  out has_unhandled boolean,
  out has_prunable boolean,
  out has_wakes boolean,
  out has_queued boolean,
  out has_late boolean,
  out has_pauses boolean,
  out has_ended_pauses boolean,
  out has_old_keys boolean,
  out may_park boolean,
  out has_returning boolean,
  out has_only_free boolean,
  out has_teams boolean,
  out is_recorded boolean
)
  language plpgsql volatile
  set enable_seqscan = off
  set plan_cache_mode = force_generic_plan
  set jit = off
  as $$
  declare
    may_have_free boolean;
    may_have_grouped boolean;
    has_other_work boolean;
  begin
    has_wakes := (select w.id from scheduled_action_wakes w order by w.id limit 1) is not null;
    has_queued := (
      select a.id
      from scheduled_actions a
      where a.status = 'pending' and a.parked_by = 'limit'
      order by a.limit_keys[1], coalesce(a.team_id, ''), a.priority, a.scheduled_at, a.id
      limit 1
    ) is not null;
    has_late := coalesce((
      select a.expires_at
      from scheduled_actions a
      where a.status = 'pending' and a.expires_at is not null
      order by a.expires_at
      limit 1
    ) <= scheduled_actions_now(), false);
    has_teams := (
      select a.id from scheduled_actions a where a.team_id is not null order by a.team_id limit 1
    ) is not null;
    has_pauses := exists (select from scheduled_action_pauses);
    has_ended_pauses := has_pauses
      and exists (select from scheduled_action_pauses p where p.ends_at <= scheduled_actions_now());
    may_park := exists (select from scheduled_action_executors);
    has_returning := may_park and exists (select from scheduled_action_executors e where e.is_returning);
    has_old_keys := coalesce((
      select k.used_at from scheduled_action_limit_keys k order by k.used_at limit 1
    ) < scheduled_actions_now() - interval '1 hour', false);
    select
      coalesce((
        select
          f.scheduled_at <= scheduled_actions_now()
          or f.priority < (
            select a.priority
            from scheduled_actions a
            where a.status = 'pending' and a.lock_group is null and a.parked_by is null
            order by a.priority desc
            limit 1
          )
        from (
          select a.priority, a.scheduled_at
          from scheduled_actions a
          where a.status = 'pending' and a.lock_group is null and a.parked_by is null
          order by a.priority, a.scheduled_at
          limit 1
        ) f
      ), false),
      coalesce((
        select
          f.scheduled_at <= scheduled_actions_now()
          or f.priority < (
            select a.priority
            from scheduled_actions a
            where a.status = 'pending' and a.lock_group is not null and a.parked_by is null
            order by a.priority desc
            limit 1
          )
        from (
          select a.priority, a.scheduled_at
          from scheduled_actions a
          where a.status = 'pending' and a.lock_group is not null and a.parked_by is null
          order by a.priority, a.scheduled_at
          limit 1
        ) f
      ), false),
      coalesce((
        select a.lease_expires_at from scheduled_actions a where a.status = 'processing' order by a.lease_expires_at limit 1
      ) < scheduled_actions_now(), false),
      coalesce((
        select t.lease_expires_at from scheduled_action_ticks t where t.finished_at is null order by t.lease_expires_at limit 1
      ) < scheduled_actions_now(), false),
      exists (
        select
        from scheduled_action_holds h
        where h.busy_until < scheduled_actions_now()
          or h.busy_until is null and h.acquired_at < scheduled_actions_now() - interval '1 minute'
      )
      or coalesce((
        select s.acquired_at from scheduled_action_limit_slots s order by s.acquired_at limit 1
      ) < scheduled_actions_now() - interval '1 minute', false),
      exists (
        select
        from scheduled_actions a
        where a.status = 'no_action' and a.action_type = any (scheduled_actions_find_work.action_types)
      ),
      exists (
        select
        from (values
          ('completed', scheduled_actions_find_work.retention_days),
          ('cancelled', scheduled_actions_find_work.retention_days),
          ('skipped', scheduled_actions_find_work.retention_days),
          ('failed', scheduled_actions_find_work.retention_failed_days)
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
      ) < scheduled_actions_now() - make_interval(days => scheduled_actions_find_work.retention_days), false)
    into may_have_free, may_have_grouped, has_expired, has_lost_ticks, has_old_holds, has_unhandled, has_prunable;
    has_other_work := may_have_grouped or has_expired or has_lost_ticks or has_old_holds or has_unhandled or has_prunable
      or has_wakes or has_queued or has_late or has_pauses or has_old_keys
      or has_returning;
    may_park := may_park and (may_have_free or may_have_grouped);
    has_only_free := may_have_free and not has_other_work;
    is_recorded := may_be_idle and not (may_have_free or has_other_work);
    if is_recorded then
      perform set_config('synchronous_commit', 'off', true);
      insert into scheduled_action_ticks (id, started_at, finished_at, lease_expires_at, caller, outcome, counts, budget)
      values (
        tick_id, scheduled_actions_now(), scheduled_actions_now(), scheduled_actions_now(), scheduled_actions_find_work.caller,
        'finished', scheduled_actions_find_work.counts, scheduled_actions_find_work.budget);
    end if;
  end
  $$;
