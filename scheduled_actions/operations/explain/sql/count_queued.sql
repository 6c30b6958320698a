-- Returns how many due actions a claim takes from the queue of a limit key before this position, at most `most`.
select count(*)
from (
  select
  from scheduled_actions a
  where a.status = 'pending'
    and a.parked_by = 'limit'
    and a.limit_keys[1] = %(limit_key)s
    and coalesce(a.team_id, '') = coalesce(%(team_id)s, '')
    and (a.priority, a.scheduled_at, a.id) < (%(priority)s, %(scheduled_at)s, %(id)s)
    and a.scheduled_at <= scheduled_actions_now()
  order by a.priority, a.scheduled_at, a.id
  limit %(most)s
) before_it
