-- The metrics of a worker are added. Rows are locked in the order of their key, so that two statements cannot deadlock.
insert into scheduled_action_metrics as m (metric, subject, part, value)
select n.metric, n.subject, n.part, n.value
from unnest(
  %(metrics)s::text[], %(subjects)s::text[], %(parts)s::text[], %(values)s::double precision[]
) n (metric, subject, part, value)
order by n.metric, n.subject, n.part
on conflict (metric, subject, part) do update set value = m.value + excluded.value
