-- Returns the package's functions that no file defines, because the file was removed or a migration could not replace the earlier
-- version, each with the objects that depend on it (a view through its rule).
select
  p.oid::regprocedure::text,
  array(
    select distinct pg_describe_object(
      case when r.oid is null then d.classid else 'pg_class'::regclass end,
      coalesce(r.ev_class, d.objid),
      case when r.oid is null then d.objsubid else 0 end
    )
    from pg_depend d
    left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid
    where d.refclassid = 'pg_proc'::regclass and d.refobjid = p.oid
    order by 1
  )
from pg_proc p
join pg_class t on t.oid = 'scheduled_action_functions'::regclass and t.relnamespace = p.pronamespace
where p.prokind = 'f'
  and p.proname <> all (%(ours)s)
  and exists (select from scheduled_action_functions f where p.proname in (f.name, f.name || %(outdated)s))
order by 1
