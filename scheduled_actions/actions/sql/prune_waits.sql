-- Of the waits that were checked longest ago, those whose action has ended are deleted. At most `limit` waits are
-- checked, and each wait at most once an hour.
with due as materialized (
  select w.topic, w.action_id
  from scheduled_action_waits w
  where w.checked_at < scheduled_actions_now() - interval '1 hour'
  order by w.checked_at
  limit %(limit)s
  for update skip locked
),
-- A lookup by key for each wait; a join might read all actions.
checked as materialized (
  select
    d.topic, d.action_id,
    coalesce((select a.status from scheduled_actions a where a.id = d.action_id), 'gone') as status
  from due d
),
kept as (
  update scheduled_action_waits w
  set checked_at = scheduled_actions_now()
  from checked c
  where w.topic = c.topic and w.action_id = c.action_id
    and c.status not in ('gone', 'completed', 'failed', 'cancelled', 'skipped')
)
delete from scheduled_action_waits w
using checked c
where w.topic = c.topic and w.action_id = c.action_id
  and c.status in ('gone', 'completed', 'failed', 'cancelled', 'skipped')
