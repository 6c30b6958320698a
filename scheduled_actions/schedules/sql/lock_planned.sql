-- Returns and locks the pending planned occurrences of these schedules, in a fixed order.
select
from scheduled_actions a
where a.id = any (array(select s.next_action_id from scheduled_action_schedules s where s.id = any (%(ids)s::uuid[])))
  and a.status in ('pending', 'no_action')
order by a.id
for update
