-- The state of one index of this schema: missing, building (by another session), invalid (a leftover) or valid.
select case
  when c.oid is null then 'missing'
  when i.indisvalid then 'valid'
  when exists (
    select from pg_stat_progress_create_index p
    where p.datname = current_database() and p.index_relid = c.oid and p.pid <> pg_backend_pid()
  ) then 'building'
  else 'invalid'
end
from (values (%(name)s)) wanted (name)
left join pg_class c
  on c.relname = wanted.name and c.relkind = 'i' and c.relnamespace = current_schema()::regnamespace
left join pg_index i on i.indexrelid = c.oid
