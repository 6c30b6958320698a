-- Returns the objects that hide tables, views and functions of the package: they have the same name in a schema that is
-- earlier in the search path. Also returns the package's schema: the first schema with both of its central tables.
with home as (
  select n.oid, n.nspname
  from unnest(current_schemas(true)) with ordinality as path (name, place)
  join pg_namespace n on n.nspname = path.name
  where 2 = (
    select count(*)
    from pg_class c
    where c.relnamespace = n.oid and c.relkind = 'r' and c.relname in ('scheduled_actions', 'scheduled_action_migrations')
      -- Not for a role that only has an access schema: its search path is meant to find the functions and views of that.
      and has_table_privilege(c.oid, 'select')
  )
  order by path.place
  limit 1
)
select format('%%I.%%I', n.nspname, other.relname), quote_ident(home.nspname)
from home
join pg_class ours on ours.relnamespace = home.oid and ours.relname = any (%(tables)s) and not pg_table_is_visible(ours.oid)
join pg_class other on other.oid = to_regclass(quote_ident(ours.relname))
join pg_namespace n on n.oid = other.relnamespace
union all
select format('%%I.%%I(%%s)', n.nspname, other.proname, oidvectortypes(other.proargtypes)), quote_ident(home.nspname)
from home
join pg_proc ours
  on ours.pronamespace = home.oid and ours.proname = any (%(functions)s) and not pg_function_is_visible(ours.oid)
join pg_proc other
  on other.proname = ours.proname and other.proargtypes = ours.proargtypes and pg_function_is_visible(other.oid)
join pg_namespace n on n.oid = other.pronamespace
order by 1
