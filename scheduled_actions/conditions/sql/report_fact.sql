-- The fact is so: the SQL function is the one implementation.
select r.changed, r.awaited
from report_fact(
  jsonb_build_object('type', %(target_type)s::text, 'id', %(target_id)s::text), %(name)s, %(value)s::jsonb,
  nullif(%(team_id)s::text, ''), %(by)s
) r
