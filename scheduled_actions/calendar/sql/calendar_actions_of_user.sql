-- Returns the pending actions of a user between two instants in order, at most `limit`, after a position: those with
-- this user id, and those of unresolved deadlines that have the user as a recipient or as the `id` of a recipient.
with named as materialized (
  select d.id, d.name, d.target_type, d.target_id
  from scheduled_action_deadlines d
  where d.status in ('open', 'missed')
    and (d.recipients @> jsonb_build_array(%(user)s::text)
      or d.recipients @> jsonb_build_array(jsonb_build_object('id', %(user)s::text)))
),
own as (
  select a.id
  from scheduled_actions a
  where a.status = 'pending'
    and a.user_id is not null
    and a.user_id = %(user)s::text
    and (a.scheduled_at, a.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid)
    and a.scheduled_at < %(to)s::timestamptz
    and a.action_type not in ('deadline:miss', 'deadline:renew')
    and (%(team_id)s::text is null or a.team_id = %(team_id)s)
  order by a.scheduled_at, a.id
  limit %(limit)s
),
of_deadlines as (
  select w.id
  from named n
  cross join lateral (
    select a.id
    from scheduled_actions a
    where a.deadline_id = n.id
      and a.status = 'pending'
      and (a.scheduled_at, a.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid)
      and a.scheduled_at < %(to)s::timestamptz
      and a.action_type not in ('deadline:miss', 'deadline:renew')
      and (%(team_id)s::text is null or a.team_id = %(team_id)s)
  ) w
)
select
  a.scheduled_at, a.id, coalesce(d.name, s.name, a.action_type), a.action_type, a.status, a.team_id, a.user_id,
  coalesce(a.target_type, d.target_type), coalesce(a.target_id, d.target_id), a.deadline_id, a.schedule_id,
  a.updated_at
from scheduled_actions a
left join scheduled_action_deadlines d on d.id = a.deadline_id
left join scheduled_action_schedules s on s.id = a.schedule_id
where a.id = any (array(select o.id from own o union select w.id from of_deadlines w))
order by a.scheduled_at, a.id
limit %(limit)s
