-- At most `limit` pending actions that have passed their expires_at are claimed by this tick, the longest expired first, so
-- that they can end without an attempt. Neither a limit, a pause, a lock group nor their scheduled_at keeps them.
-- They keep parked_by until they are settled: it says what they were waiting for.
with late as materialized (
  select a.id
  from scheduled_actions a
  where a.status = 'pending' and a.expires_at is not null and a.expires_at <= scheduled_actions_now()
  order by a.expires_at
  limit %(limit)s
  for update of a skip locked
)
update scheduled_actions a
set
  -- include: actions/claim_values
where a.id = any (array(select l.id from late l))
returning
  -- include: actions/claim_columns
