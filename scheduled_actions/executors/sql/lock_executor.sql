-- Locks the row of an executor, so that claims for it take turns. No row if another transaction has locked it.
select
from scheduled_action_executors e
where e.name = %(executor)s
for no key update skip locked
