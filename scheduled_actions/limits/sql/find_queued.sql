-- Returns due actions from the queues of limit keys that are open now, in the order of the claim, and where the next search
-- continues; locks nothing.
select *
from scheduled_actions_find_queued(
  wanted => %(wanted)s,
  after_key => %(after_key)s,
  after_team => %(after_team)s,
  excluded => %(excluded)s::text[],
  left_out => %(left_out)s::text[],
  passed_over => %(passed_over)s::uuid[],
  most_queues => %(most_queues)s,
  executor => %(executor)s
)
