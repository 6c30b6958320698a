-- Returns limit keys in the given order, each with its limits, its slots in use and its queue, counted to `most`. The first
-- key is left out if it is not in use: it has no row and no queued actions. With `is_of_team`, the numbers of a key whose limit applies across
-- teams are null, and its queue is that of the team.
select
  k.limit_key, nullif(l.scope, ''), coalesce(r.across_teams, false), l.pattern, l.at_once,
  case when not o.hides_numbers then l.in_use end,
  l.interval_seconds, l.burst,
  -- The largest integer stands for any number.
  case when not o.hides_numbers then nullif(l.room, 2147483647) end,
  case when not o.hides_numbers and l.opens_at > scheduled_actions_now() then l.opens_at end,
  w.waiting, w.oldest_due_at, l.pause_id is not null
from unnest(%(team_ids)s::text[], %(limit_keys)s::text[]) with ordinality k (team_id, limit_key, number)
cross join lateral scheduled_actions_limit(k.limit_key, k.team_id) l
left join scheduled_action_limit_rules r on r.pattern = l.pattern
cross join lateral (
  select coalesce(r.across_teams, false) and %(is_of_team)s as hides_numbers,
    coalesce(r.across_teams, false) and not %(is_of_team)s as is_of_all_teams
) o
cross join lateral (
  select count(*) as waiting, min(q.scheduled_at) as oldest_due_at
  from (
    (
      select a.scheduled_at
      from scheduled_actions a
      where a.status = 'pending'
        and a.parked_by = 'limit'
        and not o.is_of_all_teams
        and a.limit_keys[1] = k.limit_key
        and coalesce(a.team_id, '') = k.team_id
      -- The whole order of the index, so that no queue is sorted.
      order by a.limit_keys[1], coalesce(a.team_id, ''), a.priority, a.scheduled_at, a.id
      limit %(most)s
    )
    union all
    (
      select a.scheduled_at
      from scheduled_actions a
      where a.status = 'pending' and a.parked_by = 'limit' and o.is_of_all_teams and a.limit_keys[1] = k.limit_key
      order by a.limit_keys[1], coalesce(a.team_id, ''), a.priority, a.scheduled_at, a.id
      limit %(most)s
    )
  ) q
) w
where k.number > 1
  or w.waiting > 0
  or exists (select from scheduled_action_limit_keys u where u.team_id = k.team_id and u.limit_key = k.limit_key)
order by k.number
