-- These actions no longer wait for any topic.
with gone as materialized (
  select w.topic, w.action_id
  from scheduled_action_waits w
  where w.action_id = any (%(action_ids)s::uuid[])
  order by w.action_id, w.topic
  for update
)
delete from scheduled_action_waits w
using gone g
where w.topic = g.topic and w.action_id = g.action_id
