-- So many new ids, ascending, and the database's now.
select scheduled_actions_uuid7(), scheduled_actions_now()
from generate_series(1, %(count)s::int)
