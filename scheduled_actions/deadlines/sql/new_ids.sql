-- Returns `count` new ascending ids and the database's time.
select scheduled_actions_uuid7(), scheduled_actions_now()
from generate_series(1, %(count)s::int)
