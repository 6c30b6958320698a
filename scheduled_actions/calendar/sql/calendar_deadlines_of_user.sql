-- Returns the unresolved deadlines due between two instants that have a user as a recipient or as the `id` of a
-- recipient, in order, at most `limit`, after a position.
with named as materialized (
  select d.due_at, d.id, d.name, d.target_type, d.target_id, d.paused_at, d.status, d.team_id,
    d.updated_at
  from scheduled_action_deadlines d
  where d.status in ('open', 'missed')
    and (d.recipients @> jsonb_build_array(%(user)s::text)
      or d.recipients @> jsonb_build_array(jsonb_build_object('id', %(user)s::text)))
)
select
  n.due_at, n.id, coalesce(n.name, n.target_type || ' ' || n.target_id),
  case when n.paused_at is null then n.status else 'paused' end, n.team_id, n.target_type, n.target_id,
  n.updated_at
from named n
where (n.due_at, n.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid)
  and n.due_at < %(to)s::timestamptz
  and (%(team_id)s::text is null or n.team_id = %(team_id)s)
order by n.due_at, n.id
limit %(limit)s
