-- How many actions of a team, of each type, stand in each status, of each status the newest `most`; and
-- of the pending ones how many are due, how many have been for longer, and since how many seconds the oldest is.
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
