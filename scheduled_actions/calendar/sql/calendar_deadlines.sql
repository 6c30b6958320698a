-- Returns the unresolved deadlines due between two instants in order, at most `limit`, after a position.
select
  d.due_at, d.id, coalesce(d.name, d.target_type || ' ' || d.target_id),
  case when d.paused_at is null then d.status else 'paused' end, d.team_id, d.target_type, d.target_id,
  d.updated_at
from scheduled_action_deadlines d
where d.status in ('open', 'missed')
  and d.due_at >= %(after_at)s::timestamptz
  and (d.due_at, d.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid)
  and d.due_at < %(to)s::timestamptz
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
order by d.due_at, d.id
limit %(limit)s
