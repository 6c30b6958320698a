-- Returns an action and its context at the same moment: the latest tick, the tick that claimed it, the holder of its
-- lock group, the due member of the group that goes first, and the session that holds a lock on its row. Of a pending action
-- also the executor of its type, the number of its workers that were seen within two minutes and have not ended, when one was
-- last seen, whether that was within two minutes, and the carrier; of a processing one, the executor that claimed it, its carrier,
-- the worker that took it over, and when. Another team's action returns no row.
select
  -- include: actions/action_columns,
  scheduled_actions_now(),
  l.id, l.started_at, l.finished_at, l.lease_expires_at, l.counts -> 'remaining', l.budget -> 'max_duration_seconds',
  t.id, t.started_at, t.finished_at, t.lease_expires_at, null, null,
  coalesce(a.id = any (t.running), false) or a.announced_at is not null,
  h.action_id, o.status, o.lock_group_blocks, o.scheduled_at, h.busy_until,
  m.id,
  x.pid, x.xact_start,
  e.name, w.workers, w.seen_at, coalesce(w.seen_at > scheduled_actions_now() - interval '2 minutes', false), e.carrier,
  case when a.status = 'processing' then a.executor end,
  coalesce((select o.carrier from scheduled_action_executors o where o.name = a.executor), 'postgres'), r.name, a.announced_at
from scheduled_actions a
left join lateral (
  select k.id, k.started_at, k.finished_at, k.lease_expires_at, k.counts, k.budget
  from scheduled_action_ticks k
  order by k.started_at desc
  limit 1
) l on true
left join lateral (
  select k.id, k.started_at, k.finished_at, k.lease_expires_at, k.running
  from scheduled_action_ticks k
  where k.finished_at is null and k.lease_expires_at = a.lease_expires_at
  order by a.id = any (k.running) desc
  limit 1
) t on a.status = 'processing'
left join scheduled_action_holds h on h.team_id = coalesce(a.team_id, '') and h.lock_group = a.lock_group
left join scheduled_actions o on o.id = h.action_id
left join lateral (
  -- include: actions/first_member
) m on a.status = 'pending'
left join lateral (
  -- An open transaction that has locked or changed the row holds a lock on its own transaction id.
  select k.pid, s.xact_start
  from pg_locks k
  left join pg_stat_activity s on s.pid = k.pid
  where k.locktype = 'transactionid' and k.transactionid = a.xmax and k.mode = 'ExclusiveLock' and k.granted
  limit 1
) x on true
left join lateral (
  select o.name, o.carrier from scheduled_action_executors o where a.action_type like any (o.type_patterns) limit 1
) e on a.status = 'pending'
left join lateral (
  select
    count(*) filter (
      where n.finished_at is null and n.seen_at > scheduled_actions_now() - interval '2 minutes'
    ) as workers,
    max(n.seen_at) as seen_at
  from scheduled_action_workers n
  where n.executor = e.name
) w on true
left join scheduled_action_workers r on r.id = a.worker_id
where a.id = %(id)s and (%(team_id)s::text is null or a.team_id = %(team_id)s)
