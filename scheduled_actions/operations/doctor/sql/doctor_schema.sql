-- Returns the schema of our tables, and the roles other than its owner that may create objects in it; null stands for
-- all roles.
select
  n.nspname::text,
  array(
    select distinct r.rolname::text
    from aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
    -- `pg_database_owner` is the owner of the database.
    left join pg_database d on d.datname = current_database() and a.grantee = 'pg_database_owner'::regrole
    left join pg_roles r on r.oid = coalesce(d.datdba, nullif(a.grantee, 0))
    where a.privilege_type = 'CREATE'
      and (a.grantee = 0 or not pg_has_role(coalesce(d.datdba, a.grantee), c.relowner, 'usage'))
    order by 1
  )
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.oid = 'scheduled_actions'::regclass
