-- Returns those of the next `window` due actions without a lock group that wait for a condition which has never been
-- checked, each with the version of its row; then the position of the last of the `window` actions. Locks nothing.
-- Occurrences and actions with limit keys are left out: their claims have further effects.
with recursive
-- include: actions/priorities_from,
seen as materialized (
  select c.*
  from priorities p
  cross join lateral (
    select
      a.id, a.priority, a.scheduled_at, coalesce(a.team_id, '') as team_id, a.action_type, a.created_at, a.xmin::text as version,
      case when a.waiting is null and a.schedule_id is null and a.limit_keys is null and a.cancel_requested_at is null
          and (a.expires_at is null or a.expires_at > scheduled_actions_now()) and a.condition ?| '{wait,after}'
        then a.condition::text end as condition
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group is null
      and a.parked_by is null
      and a.priority = p.priority
      and a.scheduled_at <= scheduled_actions_now()
      -- include: actions/after_position
      and a.action_type <> all (%(excluded)s::text[])
      -- include: actions/not_of_executor
      -- include: actions/not_paused
    order by a.scheduled_at, a.id
    limit %(window)s
  ) c
  limit %(window)s
)
select s.id, s.team_id, s.condition, date_part('epoch', s.created_at), s.action_type, s.version, null, null
from seen s
where s.condition is not null
union all
-- Not with each action: a row is read in two thirds of the time without it.
(
  select s.id, null, null, null, null, null, s.priority, s.scheduled_at::text
  from seen s
  order by s.priority desc, s.scheduled_at desc, s.id desc
  limit 1
)
