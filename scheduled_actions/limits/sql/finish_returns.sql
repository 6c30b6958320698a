-- Executors whose queue has returned park actions again; those without types are deleted. No transaction can park an action in
-- such a queue meanwhile: it locks the executor first, and leaves out executors whose queue returns.
with returned as materialized (
  select e.name, e.types
  from scheduled_action_executors e
  where e.is_returning
    and not exists (select from scheduled_actions a where a.status = 'pending' and a.parked_by = 'queue:' || e.name)
  for update of e skip locked
),
deleted as (
  delete from scheduled_action_executors e
  using returned r
  where e.name = r.name and r.types = '{}'
)
update scheduled_action_executors e
set is_returning = false
from returned r
where e.name = r.name and r.types <> '{}'
