-- Returns the number of a team's actions by type and status, counting the newest `most` per status. For pending actions
-- it also returns how many are due, how many have been due for longer than `overdue_seconds`, and for how many seconds
-- the oldest has been due.
select
  m.status, m.action_type, count(*),
  count(*) filter (where m.status = 'pending' and m.due_since <= scheduled_actions_now()),
  count(*) filter (
    where m.status = 'pending' and m.due_since <= scheduled_actions_now() - make_interval(secs => %(overdue_seconds)s)),
  extract(epoch from scheduled_actions_now() - min(m.due_since) filter (
    where m.status = 'pending' and m.due_since <= scheduled_actions_now()))::double precision
from unnest(%(statuses)s::text[]) s (status)
cross join lateral (
  select
    a.status, a.action_type,
    -- include: actions/due_since
  from scheduled_actions a
  where a.team_id = %(team_id)s and a.status = s.status
  order by a.id desc nulls last
  limit %(most)s
) m
group by m.status, m.action_type
