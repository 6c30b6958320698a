-- The table is watched for this entity with these settings only. Returns the table's name in SQL syntax. Waits at
-- most `patience_ms` for the table's lock.
with patience as materialized (
  select set_config('lock_timeout', %(patience_ms)s, true)
)
select %(table)s::regclass::text
from patience
cross join lateral scheduled_actions_watch(
  %(table)s::regclass, %(entity)s, %(id_columns)s::text[], %(team_column)s, %(columns)s::text[], %(on)s::text[],
  %(dedup_window)s)
