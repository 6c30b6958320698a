-- Returns the kinds of work that a tick may have; the row of an idle tick is inserted.
select *
from scheduled_actions_find_work(
  tick_id => %(tick_id)s,
  may_be_idle => %(may_be_idle)s,
  action_types => %(action_types)s::text[],
  retention_days => %(retention_days)s,
  retention_failed_days => %(retention_failed_days)s,
  caller => %(caller)s,
  counts => %(counts)s::jsonb,
  budget => %(budget)s::jsonb
)
