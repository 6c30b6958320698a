-- The schema of the package's tables is first in the search path until the transaction ends. Before the tables exist, the search
-- path is unchanged.
select set_config('search_path', quote_ident(n.nspname) || ', ' || current_setting('search_path'), true)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass('scheduled_action_migrations') and n.nspname <> current_schema()
