-- Returns the state of an action's limit keys, in the order of the action, each with at most three actions that hold its
-- slots, the oldest first; with `visible_to`, only actions of that team.
select
  k.limit_key, l.pattern, coalesce(r.across_teams, false), l.at_once, l.in_use, l.interval_seconds, l.burst, l.room,
  l.opens_at,
  array(
    select s.action_id
    from scheduled_action_limit_slots s
    where s.team_id = l.scope
      and s.limit_key = k.limit_key
      and (
        %(visible_to)s::text is null
        or exists (select from scheduled_actions a where a.id = s.action_id and a.team_id = %(visible_to)s)
      )
    order by s.acquired_at
    limit 3
  )
from unnest(%(limit_keys)s::text[]) with ordinality k (limit_key, number)
cross join lateral scheduled_actions_limit(k.limit_key, coalesce(%(team_id)s, '')) l
left join scheduled_action_limit_rules r on r.pattern = l.pattern
order by k.number
