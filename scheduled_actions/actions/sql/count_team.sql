-- Returns the number of a team's actions by type and status, counting the newest `most` per status. For pending actions
-- it also returns how many are due and not parked, how many of those have been due for longer than `overdue_seconds`, and
-- for how many seconds the oldest has been due; then how many due ones are in the queues of limit keys, and how many are
-- parked by pauses, and how many are in the queues of executors.
select
  m.status, m.action_type, count(*),
  count(*) filter (where m.is_due and m.parked_by is null),
  count(*) filter (
    where m.is_due
      and m.parked_by is null
      and m.due_since <= scheduled_actions_now() - make_interval(secs => %(overdue_seconds)s)),
  extract(epoch from scheduled_actions_now() - min(m.due_since) filter (
    where m.is_due and m.parked_by is null))::double precision,
  count(*) filter (where m.is_due and m.parked_by = 'limit'),
  count(*) filter (where m.is_due and m.parked_by <> 'limit' and m.parked_by not like 'queue:%%'),
  count(*) filter (where m.is_due and m.parked_by like 'queue:%%')
from unnest(%(statuses)s::text[]) s (status)
cross join lateral (
  select
    a.status, a.action_type, a.parked_by,
    a.status = 'pending' and a.scheduled_at <= scheduled_actions_now() as is_due,
    -- include: actions/due_since
  from scheduled_actions a
  where a.team_id = %(team_id)s and a.status = s.status
  order by a.id desc nulls last
  limit %(most)s
) m
group by m.status, m.action_type
