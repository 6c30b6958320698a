-- The schema of our tables, and who else may create in it: roles without the rights of the tables' owner, by name; null
-- stands for every role.
select
  n.nspname::text,
  array(
    select distinct r.rolname::text
    from aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
    -- The owner of the database stands for the role that has its rights.
    left join pg_database d on d.datname = current_database() and a.grantee = 'pg_database_owner'::regrole
    left join pg_roles r on r.oid = coalesce(d.datdba, nullif(a.grantee, 0))
    where a.privilege_type = 'CREATE'
      and (a.grantee = 0 or not pg_has_role(coalesce(d.datdba, a.grantee), c.relowner, 'usage'))
    order by 1
  )
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.oid = 'scheduled_actions'::regclass
