-- Until the transaction ends, the schema of our tables is the first of the search path; before they are there, the path is
-- as it was.
select set_config('search_path', quote_ident(n.nspname) || ', ' || current_setting('search_path'), true)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.oid = to_regclass('scheduled_action_migrations') and n.nspname <> current_schema()
