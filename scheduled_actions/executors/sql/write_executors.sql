-- The executors are stored as given; with `replace`, all others are without types. Rows are written only if they differ. The
-- queue of an executor that has lost types returns to the claims. Waits for transactions that park actions in its queue.
-- Returns the executors whose types were changed, by name, with their types before (empty: it was added) and after (empty: removed).
with given as materialized (
  select *
  from jsonb_to_recordset(%(executors)s::jsonb) as g (name text, types text[], type_patterns text[], carrier text)
),
removed as (
  update scheduled_action_executors e
  set types = '{}', type_patterns = '{}', is_returning = true
  where %(replace)s and e.types <> '{}' and e.name not in (select g.name from given g)
  returning e.name, e.types
),
written as (
  insert into scheduled_action_executors as e (name, types, type_patterns, carrier)
  select g.name, g.types, g.type_patterns, g.carrier
  from given g
  -- Otherwise, each first tick would lock the row, and wait for transactions that have locked it.
  where not exists (select from scheduled_action_executors s where s.name = g.name and s.types = g.types and s.carrier = g.carrier)
  order by g.name
  on conflict (name) do update
  set
    types = excluded.types,
    type_patterns = excluded.type_patterns,
    carrier = excluded.carrier,
    is_returning = e.is_returning or not e.types <@ excluded.types
  where e.types <> excluded.types or e.carrier <> excluded.carrier
  returning e.name, e.types
)
select c.name, coalesce(b.types, '{}'), c.types
from (select r.name, r.types from removed r union all select w.name, w.types from written w) c
-- Reads the rows as they were before this statement.
left join scheduled_action_executors b on b.name = c.name
where b.types is distinct from c.types
order by c.name
