-- The table is no longer watched for this entity (for any, where it is null); answers how many watches ended.
with patience as materialized (
  select set_config('lock_timeout', %(patience_ms)s, true)
)
select scheduled_actions_unwatch(%(table)s::regclass, %(entity)s)
from patience
