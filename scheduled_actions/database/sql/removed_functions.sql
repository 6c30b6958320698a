-- Our functions that no file defines: of files that are gone, and earlier versions that a migration could not replace.
select p.oid::regprocedure::text
from pg_proc p
where p.pronamespace = quote_ident(current_schema())::regnamespace
  and p.prokind = 'f'
  and p.proname <> all (%(ours)s)
  and exists (select from scheduled_action_functions f where p.proname in (f.name, f.name || %(outdated)s))
order by 1
