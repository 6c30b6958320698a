-- Returns at most `most` limit keys of a team after a position, by key: those with a row of the team, and those in whose
-- queues some of its newest 10,000 pending actions are.
select %(team_id)s::text, k.limit_key
from (
  (
    select r.limit_key
    from scheduled_action_limit_keys r
    where r.team_id = %(team_id)s and r.limit_key > %(after_key)s
    order by r.limit_key
    limit %(most)s
  )
  union
  (
    select n.limit_keys[1]
    from (
      select a.limit_keys, a.parked_by
      from scheduled_actions a
      where a.team_id = %(team_id)s and a.status = 'pending'
      order by a.id desc nulls last
      limit 10000
    ) n
    where n.parked_by = 'limit' and n.limit_keys[1] > %(after_key)s
  )
) k
where starts_with(k.limit_key, %(prefix)s)
order by k.limit_key
limit %(most)s
