-- The id of the first due member of the lock group of an action `a`.
select m.id
from scheduled_actions m
where m.status = 'pending'
  and m.lock_group = a.lock_group
  and coalesce(m.team_id, '') = coalesce(a.team_id, '')
  and m.scheduled_at <= scheduled_actions_now()
order by m.priority, m.scheduled_at, m.id
limit 1
