-- Returns the functions with these names and the properties that change when one of them is replaced.
select p.proname, p.oid::regprocedure::text, p.ctid::text
from pg_proc p
where p.pronamespace = quote_ident(current_schema())::regnamespace and p.prokind = 'f' and p.proname = any (%(names)s)
