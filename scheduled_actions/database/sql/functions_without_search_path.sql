-- Returns statements that set the search path of the package's functions where it matters and is not set to this schema:
-- for trigger functions, `security definer` functions, functions of views, and functions that callers with any search path
-- call by name. Functions that these call inherit it.
-- The other functions keep the caller's search path, which costs nothing and allows inlining.
select 'alter function ' || p.oid::regprocedure || ' set search_path = ' || quote_ident(current_schema()) || ', pg_temp'
from pg_proc p
where p.pronamespace = quote_ident(current_schema())::regnamespace
  and p.prokind = 'f'
  and p.proname = any (%(ours)s)
  and (
    p.prosecdef
    or p.prorettype = 'trigger'::regtype
    or p.proname = any (%(entry_points)s)
    or exists (
      select from pg_depend d
      where d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_proc'::regclass and d.refobjid = p.oid
    )
  )
  and not coalesce(
    'search_path=' || quote_ident(current_schema()) || ', pg_temp' = any (p.proconfig), false)
