-- At most `most` ended pauses that park no action are locked. Returns their ids. They must be deleted by a later statement:
-- this one does not see actions that another transaction parked while this one waited.
select p.id
from scheduled_action_pauses p
where p.ends_at <= scheduled_actions_now()
  and not exists (select from scheduled_actions a where a.status = 'pending' and a.parked_by = p.id::text)
order by p.id
limit %(most)s
for update of p skip locked
