-- Returns the results of the ticks in the steps of a window, from the newest 20,000 ticks; a week with a tick per
-- minute has fewer.
select
  floor(extract(epoch from t.started_at - %(since)s) / %(step_seconds)s)::int,
  count(*),
  coalesce(sum(scheduled_actions_stored_count(t.counts -> 'succeeded')), 0)::bigint,
  coalesce(sum(scheduled_actions_stored_count(t.counts -> 'retried')), 0)::bigint,
  coalesce(sum(scheduled_actions_stored_count(t.counts -> 'failed')), 0)::bigint
from (
  select n.started_at, n.counts
  from scheduled_action_ticks n
  where n.started_at >= %(since)s
  order by n.started_at desc
  limit 20000
) t
group by 1
order by 1
