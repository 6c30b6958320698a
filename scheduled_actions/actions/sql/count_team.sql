-- Returns the number of a team's actions by type and status, counting the newest `most` per status. For pending actions
-- it also returns how many are due, how many have been due for longer than `overdue_seconds`, and for how many seconds
-- the oldest has been due.
select
  a.status, a.action_type, count(*),
  count(*) filter (where a.status = 'pending' and a.scheduled_at <= scheduled_actions_now()),
  count(*) filter (
    where a.status = 'pending'
      and a.scheduled_at <= scheduled_actions_now() - make_interval(secs => %(overdue_seconds)s)),
  extract(epoch from scheduled_actions_now() - min(a.scheduled_at) filter (
    where a.status = 'pending' and a.scheduled_at <= scheduled_actions_now() and isfinite(a.scheduled_at)))::double precision
from unnest(%(statuses)s::text[]) s (status)
cross join lateral (
  select m.status, m.action_type, m.scheduled_at
  from scheduled_actions m
  where m.team_id = %(team_id)s and m.status = s.status
  order by m.id desc nulls last
  limit %(most)s
) a
group by a.status, a.action_type
