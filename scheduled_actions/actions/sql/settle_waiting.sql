-- The actions whose claim is still valid, or which are unclaimed and unchanged since this version, are pending again,
-- uncharged, until their next check: at the end of their interval (`seconds`; 0: none); at `changes_at` if that is
-- earlier, because time alone may then change the result; or now if they were woken since they registered. Without both
-- times, only a change makes them due.
-- Waits are locked before actions, as when waking, so that no wait is marked as woken between its reading and the
-- settlement.
-- Returns the actions settled, null if all were; those of them that are cancelled; and whether one is due now.
-- The commit waits for the disk if claims end. Without it, an unclaimed action is as due as before.
with patience as materialized (
  select
    set_config('lock_timeout', %(patience_ms)s, true),
    case when %(are_unclaimed)s then set_config('synchronous_commit', 'off', true) end
),
outcome as materialized (
  select o.id, o.token, o.version, nullif(o.seconds, 0) as seconds, o.changes_at, o.reason, o.hold
  from patience
  cross join unnest(
    %(ids)s::uuid[], %(tokens)s::uuid[], %(versions)s::text[], %(seconds)s::double precision[], %(changes_at)s::timestamptz[],
    %(reasons)s::text[], %(holds)s::text[]
  ) as o (id, token, version, seconds, changes_at, reason, hold)
),
mark as materialized (
  select w.action_id, w.is_woken
  from scheduled_action_waits w
  where w.action_id = any (array(select o.id from outcome o))
  order by w.action_id, w.topic
  for update
),
woken as materialized (
  select m.action_id as id from mark m group by m.action_id having bool_or(m.is_woken)
),
tick as materialized (
  select
    to_jsonb(scheduled_actions_now()) as now,
    jsonb_build_object('since', scheduled_actions_now(), 'checks', 1, 'unmet_since', scheduled_actions_now()) as first_wait,
    jsonb_build_object(
      'outcome', 'waited', 'started_at', scheduled_actions_now(), 'ended_at', scheduled_actions_now(),
      case when %(worker_id)s::uuid is null then 'tick' else 'worker' end,
      coalesce(%(worker_id)s::uuid, %(tick_id)s::uuid)) as entry
),
settled as (
  update scheduled_actions a
  set
    status = case when a.cancel_requested_at is null then 'pending' else 'cancelled' end,
    completed_at = case when a.cancel_requested_at is null then null else scheduled_actions_now() end,
    (scheduled_at, waiting, history) = (
      select
        n.next_at,
        case when a.waiting is null then o.first_wait
        else jsonb_build_object(
          'since', coalesce(a.waiting -> 'since', o.now),
          'checks', scheduled_actions_stored_count(a.waiting -> 'checks') + 1,
          'unmet_since', case when a.waiting ->> 'unmet' = o.reason then a.waiting -> 'unmet_since' else o.now end)
        end || jsonb_build_object('next_check_at', n.next_at, 'unmet', o.reason),
        case when a.history = '[]' then jsonb_build_array(n.entry) else scheduled_actions_append_history(a.history, n.entry) end
      from (
        select
          o.entry || jsonb_build_object('error', o.reason) as entry,
          case when o.is_woken then scheduled_actions_now()
          when o.seconds is null and o.changes_at is null then scheduled_actions_never()
          else greatest(
            least(
              -- A multiple of the interval after `scheduled_at`, so that ticks every minute find each one-minute check
              -- due.
              case when isfinite(a.scheduled_at) then a.scheduled_at + make_interval(secs => o.seconds * (
                1 + floor(extract(epoch from scheduled_actions_now() - a.scheduled_at) / o.seconds)))
                else scheduled_actions_now() + make_interval(secs => o.seconds) end,
              o.changes_at,
              scheduled_actions_never()),
            scheduled_actions_now() + interval '1 millisecond')
          end as next_at
        -- Evaluated once: its columns are used several times.
        offset 0
      ) n
    ),
    dedup_open = false,
    claim_token = null,
    lease_expires_at = null,
    executor = null,
    announced_at = null,
    worker_id = null,
    updated_at = scheduled_actions_now()
  from (
    select p.*, p.id in (select k.id from woken k) as is_woken, t.now, t.first_wait, t.entry
    from outcome p
    cross join tick t
  ) o
  -- The array makes the planner look up the actions by key: a join alone may read the whole table.
  where a.id = any (array(select p.id from outcome p)) and a.id = o.id
    and (a.claim_token = o.token or (a.status = 'pending' and a.xmin::text = o.version))
  returning a.id, a.status, a.lock_group, o.hold, a.limit_keys, o.token, o.is_woken
),
freed_slots as (
  delete from scheduled_action_limit_slots l
  using settled s
  where s.limit_keys is not null and l.action_id = s.id and l.claim_token = s.token
),
freed as (
  delete from scheduled_action_holds h
  using settled s
  where s.lock_group is not null and h.action_id = s.id and (s.hold = 'free' or s.status <> 'pending')
)
select
  case when count(*) < cardinality(%(ids)s::uuid[]) then coalesce(array_agg(s.id), '{}') end,
  coalesce(array_agg(s.id) filter (where s.status = 'cancelled'), '{}'),
  coalesce(bool_or(s.is_woken), false)
from settled s
