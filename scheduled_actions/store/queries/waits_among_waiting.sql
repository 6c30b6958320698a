-- Which waiting actions come after which other waiting actions, as of their last check; at most `most` pairs.
select w.action_id, w.topic
from scheduled_action_waits w
join scheduled_actions a on a.id = w.topic
where a.status in ('pending', 'processing', 'no_action')
  and exists (select from scheduled_action_waits k where k.action_id = w.topic)
limit %(most)s
