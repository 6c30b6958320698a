-- These actions no longer wait for any topic. The commit does not wait for the disk: waits that remain after a crash only
-- cost a look-up per change, until maintenance deletes them.
with unsynced as materialized (
  select set_config('synchronous_commit', 'off', true)
),
gone as materialized (
  select w.topic, w.action_id
  from scheduled_action_waits w
  where w.action_id = any (%(action_ids)s::uuid[]) and exists (select from unsynced)
  order by w.action_id, w.topic
  for update
)
delete from scheduled_action_waits w
using gone g
where w.topic = g.topic and w.action_id = g.action_id
