-- Returns the pending actions between two instants in order, at most `limit`, after a position. Reads the two claim
-- indexes per priority from there, so that earlier actions cost nothing, and the first 10,000 parked actions.
-- Actions that mark a deadline missed or create the next one are left out: the due instant of a deadline is an entry of
-- its own.
with waiting as (
  select w.*
  from scheduled_actions_waiting_priorities() p
  cross join lateral (
    select
      a.id, a.scheduled_at, a.action_type, a.status, a.team_id, a.user_id, a.target_type, a.target_id, a.deadline_id,
      a.schedule_id, a.updated_at, d.name, d.target_type as deadline_target_type, d.target_id as deadline_target_id
    from scheduled_actions a
    left join scheduled_action_deadlines d on d.id = a.deadline_id
    where a.status = 'pending'
      and a.lock_group is null
      and a.parked_by is null
      and a.priority = p.priority
      and (a.scheduled_at, a.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid)
      and a.scheduled_at < %(to)s::timestamptz
      and a.action_type not in ('deadline:miss', 'deadline:renew')
      and (%(team_id)s::text is null or a.team_id = %(team_id)s)
    order by a.scheduled_at, a.id
    limit %(limit)s
  ) w
  where not p.is_grouped
  union all
  select w.*
  from scheduled_actions_waiting_priorities() p
  cross join lateral (
    select
      a.id, a.scheduled_at, a.action_type, a.status, a.team_id, a.user_id, a.target_type, a.target_id, a.deadline_id,
      a.schedule_id, a.updated_at, d.name, d.target_type as deadline_target_type, d.target_id as deadline_target_id
    from scheduled_actions a
    left join scheduled_action_deadlines d on d.id = a.deadline_id
    where a.status = 'pending'
      and a.lock_group is not null
      and a.parked_by is null
      and a.priority = p.priority
      and (a.scheduled_at, a.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid)
      and a.scheduled_at < %(to)s::timestamptz
      and a.action_type not in ('deadline:miss', 'deadline:renew')
      and (%(team_id)s::text is null or a.team_id = %(team_id)s)
    order by a.scheduled_at, a.id
    limit %(limit)s
  ) w
  where p.is_grouped
  union all
  (
    select
      a.id, a.scheduled_at, a.action_type, a.status, a.team_id, a.user_id, a.target_type, a.target_id, a.deadline_id,
      a.schedule_id, a.updated_at, d.name, d.target_type as deadline_target_type, d.target_id as deadline_target_id
    from (
      select k.*
      from scheduled_actions k
      where k.status = 'pending' and k.parked_by is not null
      order by k.parked_by, k.priority, k.scheduled_at, k.id
      limit 10000
    ) a
    left join scheduled_action_deadlines d on d.id = a.deadline_id
    where (a.scheduled_at, a.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid)
      and a.scheduled_at < %(to)s::timestamptz
      and a.action_type not in ('deadline:miss', 'deadline:renew')
      and (%(team_id)s::text is null or a.team_id = %(team_id)s)
    order by a.scheduled_at, a.id
    limit %(limit)s
  )
)
select
  w.scheduled_at, w.id, coalesce(w.name, s.name, w.action_type), w.action_type, w.status, w.team_id, w.user_id,
  coalesce(w.target_type, w.deadline_target_type), coalesce(w.target_id, w.deadline_target_id), w.deadline_id, w.schedule_id,
  w.updated_at
from (select * from waiting order by scheduled_at, id limit %(limit)s) w
left join scheduled_action_schedules s on s.id = w.schedule_id
order by w.scheduled_at, w.id
