-- The state of one index of this schema (missing, invalid or valid), and whether another session builds an index in this
-- database: two builds at once wait for each other.
select
  case when c.oid is null then 'missing' when i.indisvalid then 'valid' else 'invalid' end,
  exists (
    select from pg_stat_progress_create_index p
    where p.datname = current_database() and p.pid <> pg_backend_pid()
  )
from (values (%(name)s)) wanted (name)
left join pg_class c
  on c.relname = wanted.name and c.relkind = 'i' and c.relnamespace = current_schema()::regnamespace
left join pg_index i on i.indexrelid = c.oid
