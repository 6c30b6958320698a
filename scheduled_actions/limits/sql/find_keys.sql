-- Returns at most `most` limit keys after a position, by key and team: those with a row, and those of queued actions. Of a
-- key whose limit applies across teams, the team is ''. Each key takes a few index lookups, however many actions are queued.
with recursive seen (limit_key, team_id, across_teams, number) as (
  select k.limit_key, %(after_team)s::text, coalesce(r.across_teams, false), 0
  from (select %(after_key)s::text collate "C" as limit_key) k
  cross join lateral scheduled_actions_limit(k.limit_key, '') l
  left join scheduled_action_limit_rules r on r.pattern = l.pattern
  union all
  select n.limit_key, l.scope, coalesce(r.across_teams, false), s.number + 1
  from seen s
  cross join lateral (
    select m.limit_key, m.team_id
    from (
      (
        select a.limit_keys[1] as limit_key, coalesce(a.team_id, '') as team_id
        from scheduled_actions a
        where a.status = 'pending'
          and a.parked_by = 'limit'
          and not s.across_teams
          and (a.limit_keys[1], coalesce(a.team_id, '')) > (s.limit_key, s.team_id)
        order by a.limit_keys[1], coalesce(a.team_id, '')
        limit 1
      )
      union all
      (
        select a.limit_keys[1], coalesce(a.team_id, '')
        from scheduled_actions a
        where a.status = 'pending' and a.parked_by = 'limit' and s.across_teams and a.limit_keys[1] > s.limit_key
        order by a.limit_keys[1], coalesce(a.team_id, '')
        limit 1
      )
      union all
      (
        select k.limit_key, k.team_id
        from scheduled_action_limit_keys k
        where not s.across_teams and (k.limit_key, k.team_id) > (s.limit_key, s.team_id)
        order by k.limit_key, k.team_id
        limit 1
      )
      union all
      (
        select k.limit_key, k.team_id
        from scheduled_action_limit_keys k
        where s.across_teams and k.limit_key > s.limit_key
        order by k.limit_key, k.team_id
        limit 1
      )
    ) m
    order by m.limit_key, m.team_id
    limit 1
  ) n
  cross join lateral scheduled_actions_limit(n.limit_key, n.team_id) l
  left join scheduled_action_limit_rules r on r.pattern = l.pattern
  where s.number < %(most)s and starts_with(n.limit_key, %(prefix)s)
)
select s.team_id, s.limit_key
from seen s
where s.number > 0
order by s.number
