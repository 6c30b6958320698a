-- What ticks have counted, at most `limit` rows of it.
select m.metric, m.subject, m.part, m.value
from scheduled_action_metrics m
order by m.metric, m.subject, m.part
limit %(limit)s
