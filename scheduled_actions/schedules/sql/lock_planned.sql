-- The planned occurrences of these schedules that wait, locked for the rest of the transaction in one order.
select
from scheduled_actions a
where a.id = any (array(select s.next_action_id from scheduled_action_schedules s where s.id = any (%(ids)s::uuid[])))
  and a.status in ('pending', 'no_action')
order by a.id
for update
