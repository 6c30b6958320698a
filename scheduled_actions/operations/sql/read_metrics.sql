-- Returns the counters written by ticks, at most `limit` rows.
select m.metric, m.subject, m.part, m.value
from scheduled_action_metrics m
order by m.metric, m.subject, m.part
limit %(limit)s
