-- What the ticks of a window did, in steps of it: of the newest 20,000 of them, so that a week of one a minute is whole.
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
