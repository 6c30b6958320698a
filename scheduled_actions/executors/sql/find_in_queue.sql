-- Returns due actions from the queue of an executor, at most `wanted`, as parallel arrays, in the order of priority and
-- time; if `is_fair`, the first action of each team comes before the second one of any. Locks nothing. Reads at most `window`
-- actions after a position. Expired actions are left to ticks.
-- Also returns the last action read as the position of the next search, null if there are no further actions; the teams
-- that have more than a tenth of a full window ('' is the team of actions without one); whether the queue returns to the
-- claims; whether actions are in the queues of limit keys; whether there are pauses; and now and the end of a lease.
with executor as materialized (
  select e.type_patterns, e.is_returning from scheduled_action_executors e where e.name = %(executor)s
),
seen as materialized (
  select a.id, a.team_id, a.lock_group, a.priority, a.scheduled_at, a.action_type, a.expires_at
  from scheduled_actions a
  where a.status = 'pending'
    and a.parked_by = 'queue:' || %(executor)s::text
    and (a.priority, a.scheduled_at, a.id) > (%(after_priority)s::smallint, %(after_at)s::timestamptz, %(after_id)s::uuid)
  order by a.priority, a.scheduled_at, a.id
  limit %(window)s
),
ordered as materialized (
  select
    a.id, a.team_id, a.lock_group, a.priority, a.scheduled_at,
    case when %(is_fair)s
      then row_number() over (partition by a.team_id order by a.priority, a.scheduled_at, a.id)
    end as turn
  from seen a
  where a.scheduled_at <= scheduled_actions_now()
    and a.action_type like any (array(select unnest(x.type_patterns) from executor x))
    and (a.expires_at is null or a.expires_at > scheduled_actions_now())
    and coalesce(a.team_id, '') <> all (%(left_out)s::text[])
    and a.id <> all (%(passed_over)s::uuid[])
    -- include: actions/not_paused
),
found as materialized (
  select a.*
  from (
    select
      o.*,
      -- A member that kept the group while it was pending goes before members that are due earlier.
      o.lock_group is not null
        and exists (select from scheduled_action_holds h where h.action_id = o.id and h.busy_until is null) as holds_group
    from ordered o
    order by o.turn, o.priority, o.scheduled_at, o.id
    -- Keeps the subquery separate: the groups of actions are looked up in this order, until enough are found.
    offset 0
  ) a
  where a.lock_group is null
    or a.holds_group
    or not exists (
      select
      from scheduled_action_holds h
      where h.team_id = coalesce(a.team_id, '') and h.lock_group = a.lock_group
    )
    and a.id = (
      -- include: actions/first_member
    )
  limit %(wanted)s
),
columns as (
  select
    coalesce(array_agg(f.id), '{}') as ids, array_agg(f.team_id) as team_ids, array_agg(f.lock_group) as lock_groups,
    array_agg(f.holds_group) as hold_groups, array_agg(f.priority) as priorities,
    array_agg(date_part('epoch', f.scheduled_at)) as scheduled_epochs
  from (select * from found order by turn, priority, scheduled_at, id) f
)
select
  c.ids, c.team_ids, c.lock_groups, c.hold_groups, c.priorities, c.scheduled_epochs,
  l.priority, l.scheduled_at::text, l.id,
  case when l.id is null then '{}' else array(
    select coalesce(s.team_id, '') from seen s group by 1 having count(*) > %(window)s / 10
  ) end,
  coalesce((select x.is_returning from executor x), false),
  (
    select a.id
    from scheduled_actions a
    where a.status = 'pending' and a.parked_by = 'limit'
    order by a.limit_keys[1], coalesce(a.team_id, ''), a.priority, a.scheduled_at, a.id
    limit 1
  ) is not null,
  exists (select from scheduled_action_pauses),
  scheduled_actions_now(), scheduled_actions_now() + make_interval(secs => %(lease_seconds)s)
from columns c
left join (
  select s.priority, s.scheduled_at, s.id from seen s order by s.priority, s.scheduled_at, s.id offset %(window)s - 1
) l on true
