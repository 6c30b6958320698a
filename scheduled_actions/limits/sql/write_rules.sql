-- The rules are exactly those given. Rows are written only if they differ.
with given as (
  select *
  from jsonb_to_recordset(%(rules)s::jsonb) as g (
    pattern text, at_once integer, interval_seconds double precision, burst integer, across_teams boolean
  )
),
gone as (
  delete from scheduled_action_limit_rules r where r.pattern not in (select g.pattern from given g)
)
insert into scheduled_action_limit_rules as r
  (pattern, at_once, interval_seconds, burst, across_teams)
select g.pattern, g.at_once, g.interval_seconds, g.burst, g.across_teams
from given g
order by g.pattern
on conflict (pattern) do update
set
  at_once = excluded.at_once,
  interval_seconds = excluded.interval_seconds,
  burst = excluded.burst,
  across_teams = excluded.across_teams
where (r.at_once, r.interval_seconds, r.burst, r.across_teams)
  is distinct from (excluded.at_once, excluded.interval_seconds, excluded.burst, excluded.across_teams)
