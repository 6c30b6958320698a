-- The waits of these actions are locked until the transaction ends, in a fixed order, so that nothing wakes the actions
-- and no lock is taken out of order. Waits at most `patience_ms` for a locked row.
with patience as materialized (
  select set_config('lock_timeout', %(patience_ms)s, true)
)
select
from scheduled_action_waits w
where w.action_id = any (%(ids)s::uuid[]) and exists (select from patience)
order by w.action_id, w.topic
for update of w
