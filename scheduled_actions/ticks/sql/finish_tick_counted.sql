-- The tick has ended, unless its row has a later announcement. Its metrics are added once: a repeated statement finds the
-- number of the buffer in the row. Rows are locked in the order of their key, so that two ticks cannot deadlock.
with before as materialized (
  select b.id, b.counts
  from scheduled_action_ticks b
  where b.id = %(tick_id)s and b.announcement <= %(announcement)s
  for update
),
ended as (
  update scheduled_action_ticks t
  set
    finished_at = scheduled_actions_now(), running = '{}', outcome = %(outcome)s, announcement = %(announcement)s,
    counts = %(counts)s::jsonb || jsonb_build_object('metrics_buffer', %(buffer)s::bigint)
  from before b
  where t.id = b.id
)
insert into scheduled_action_metrics as m (metric, subject, part, value)
select n.metric, n.subject, n.part, n.value
from before b
cross join unnest(
  %(metrics)s::text[], %(subjects)s::text[], %(parts)s::text[], %(values)s::double precision[]
) n (metric, subject, part, value)
where b.counts -> 'metrics_buffer' is distinct from to_jsonb(%(buffer)s::bigint)
order by n.metric, n.subject, n.part
on conflict (metric, subject, part) do update set value = m.value + excluded.value
