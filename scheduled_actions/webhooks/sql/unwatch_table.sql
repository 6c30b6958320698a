-- The watch of the table for this entity is removed (null: its watches for all entities). Returns the number of removed
-- watches.
with patience as materialized (
  select set_config('lock_timeout', %(patience_ms)s, true)
)
select scheduled_actions_unwatch(%(table)s::regclass, %(entity)s)
from patience
