-- The first change in the queue is moved to its end.
update scheduled_action_wakes w
set id = default
where w.id = (select k.id from scheduled_action_wakes k order by k.id limit 1 for update skip locked)
