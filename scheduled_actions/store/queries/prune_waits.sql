-- No action that has ended waits for anything; at most `limit` rows are gone.
delete from scheduled_action_waits w
where (w.topic, w.action_id) in (
  select k.topic, k.action_id
  from scheduled_action_waits k
  left join scheduled_actions a on a.id = k.action_id
  where a.id is null or a.status in ('completed', 'failed', 'cancelled', 'skipped')
  limit %(limit)s
  for update of k skip locked
)
