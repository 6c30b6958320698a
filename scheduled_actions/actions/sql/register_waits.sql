-- These actions wait for these topics, and those that are claimed are not woken yet; any later change wakes them.
-- The commit does not wait for the disk. That of the settlement is later in the WAL, and no action waits before it.
with unsynced as materialized (
  select set_config('synchronous_commit', 'off', true)
),
woken as materialized (
  select w.topic, w.action_id
  from scheduled_action_waits w
  where w.action_id = any (%(claimed)s::uuid[]) and w.is_woken
  order by w.action_id, w.topic
  for update
),
calmed as (
  update scheduled_action_waits w
  set is_woken = false
  from woken k
  where w.topic = k.topic and w.action_id = k.action_id
)
insert into scheduled_action_waits (topic, action_id)
select t.topic, t.action_id
from unnest(%(waiters)s::uuid[], %(topics)s::uuid[]) t (action_id, topic)
where exists (select from unsynced)
on conflict (topic, action_id) do nothing
