-- Returns the current time, and the input of conditions as described in `scheduled_actions_condition_inputs`.
select extract(epoch from scheduled_actions_now())::float8, i.facts, i.actions, i.progress, i.deadline_states
from scheduled_actions_condition_inputs(
  teams => %(teams)s,
  target_types => %(target_types)s,
  target_ids => %(target_ids)s,
  names => %(names)s,
  most_prefixed => %(prefixed)s,
  awaited => %(awaited)s,
  waiters => %(action_ids)s,
  deadlines => %(deadlines)s
) i
