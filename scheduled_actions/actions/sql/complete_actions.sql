-- The actions whose claim is still valid are completed, and the next starts announced. Returns the actions completed, null
-- if all were, and whether the announcement is valid.
select *
from scheduled_actions_complete(
  ids => %(ids)s,
  tokens => %(tokens)s,
  started => %(started)s::bigint[],
  ended => %(ended)s::bigint[],
  attempts_allowed => %(max_attempts)s::integer[],
  results => %(results)s::text[],
  has_slots => %(has_slots)s,
  begun_at => %(begun_at)s,
  next_running => %(running)s,
  tick_id => %(tick_id)s,
  number => %(announcement)s,
  patience_ms => %(patience_ms)s::text
)
