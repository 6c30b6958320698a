-- What these actions wait for is locked for the rest of the transaction, in one order: nothing is woken, and no row that comes
-- later in the order of locks is locked yet. A locked row is waited for no longer than `patience_ms`.
with patience as materialized (
  select set_config('lock_timeout', %(patience_ms)s, true)
)
select
from scheduled_action_waits w
where w.action_id = any (%(ids)s::uuid[]) and exists (select from patience)
order by w.action_id, w.topic
for update of w
