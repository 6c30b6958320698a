-- Returns the state of an index in the package's schema (missing, invalid or valid), the name of that schema, and whether another
-- session is building an index in this database; two concurrent builds wait for each other.
select
  case when c.oid is null then 'missing' when i.indisvalid then 'valid' else 'invalid' end,
  quote_ident(n.nspname),
  exists (
    select from pg_stat_progress_create_index p
    where p.datname = current_database() and p.pid <> pg_backend_pid()
  )
from (values (%(name)s)) wanted (name)
join pg_class t on t.oid = 'scheduled_action_migrations'::regclass
join pg_namespace n on n.oid = t.relnamespace
left join pg_class c on c.relname = wanted.name and c.relkind = 'i' and c.relnamespace = n.oid
left join pg_index i on i.indexrelid = c.oid
