-- The fact has the value. The SQL function `report_fact` is the only implementation of reporting a fact.
select r.changed, r.has_waiters
from report_fact(
  jsonb_build_object('type', %(target_type)s::text, 'id', %(target_id)s::text), %(name)s, %(value)s::jsonb,
  nullif(%(team_id)s::text, ''), %(by)s
) r
