-- Answers what there may be for a tick to do; one that may be idle and finds nothing has its row now.
select *
from scheduled_actions_look(
  tick_id => %(tick_id)s,
  may_be_idle => %(may_be_idle)s,
  action_types => %(action_types)s::text[],
  retention_days => %(retention_days)s,
  retention_failed_days => %(retention_failed_days)s,
  caller => %(caller)s,
  counts => %(counts)s::jsonb,
  budget => %(budget)s::jsonb
)
