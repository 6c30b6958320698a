-- Returns and locks the schedules whose planned occurrence is among these actions, which this token has claimed, except
-- schedules that another transaction has locked.
-- Each row also has: when another running occurrence was claimed, whether another one has the status `no_action`, and
-- whether the decision depends on occurrences that `earlier_occurrences.sql` returns. The others are searched among
-- running actions, because a series can have a long history.
-- The first column is a new id, the same in all rows; the third is the position among `action_ids`. Returns only the
-- columns that planning needs. `array(select …)` keeps the planner from estimating a hundred ids one by one and from
-- reading the whole table.
with met as materialized (
  select m.action_id, m.schedule_id, m.position
  from unnest(%(action_ids)s::uuid[], %(schedule_ids)s::uuid[]) with ordinality as m (action_id, schedule_id, position)
),
at_work as materialized (
  select m.action_id, min(a.updated_at) as running_since
  from scheduled_actions a
  join met m on m.schedule_id = a.schedule_id and m.action_id <> a.id
  where a.status = 'processing' and a.lease_expires_at > '-infinity'
  group by m.action_id
),
unhandled as materialized (
  select distinct a.schedule_id
  from scheduled_actions a
  where a.status = 'no_action'
    and a.action_type = any (%(action_types)s::text[])
    and a.schedule_id in (select m.schedule_id from met m)
)
select
  (select scheduled_actions_uuid7()::text),
  date_part('epoch', scheduled_actions_now()),
  m.position,
  date_part('epoch', w.running_since),
  u.schedule_id is not null,
  s.requires_previous or s.overlap = 'skip' and coalesce(s.condition ? 'wait', false),
  s.recurrence, s.timezone, date_part('epoch', s.anchor_at), s.skip, date_part('epoch', s.until),
  s.action_type, s.kind, s.recurrence_type, s.misfire, s.misfire_grace_seconds, s.catch_up_limit,
  s.catch_up_seconds, s.overlap, s.jitter_seconds, s.remaining, s.pause_after_failures,
  date_part('epoch', s.next_occurrence_at)
from met m
join scheduled_action_schedules s on s.id = m.schedule_id and s.next_action_id = m.action_id
left join at_work w on w.action_id = m.action_id
left join unhandled u on u.schedule_id = s.id
where s.id = any (array(select m.schedule_id from met m))
for update of s skip locked
