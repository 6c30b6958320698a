-- The table is watched for this entity, and no longer as it was before; answers the table's name as SQL writes it.
-- It is not waited for longer than `patience_ms`.
with patience as materialized (
  select set_config('lock_timeout', %(patience_ms)s, true)
)
select %(table)s::regclass::text
from patience
cross join lateral scheduled_actions_watch(
  %(table)s::regclass, %(entity)s, %(id_columns)s::text[], %(team_column)s, %(columns)s::text[], %(on)s::text[],
  %(dedup_window)s)
