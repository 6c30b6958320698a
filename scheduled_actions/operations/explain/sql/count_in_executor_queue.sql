-- Returns how many due actions of the queue of an executor come before this position, at most `most`.
select count(*)
from (
  select
  from scheduled_actions a
  where a.status = 'pending'
    and a.parked_by = 'queue:' || %(executor)s::text
    and (a.priority, a.scheduled_at, a.id) < (%(priority)s, %(scheduled_at)s, %(id)s)
    and a.scheduled_at <= scheduled_actions_now()
  order by a.priority, a.scheduled_at, a.id
  limit %(most)s
) before_it
