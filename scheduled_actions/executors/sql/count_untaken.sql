-- Returns the number of claimed actions of an executor that no worker has taken over, at most `most`. Those whose lease has
-- ended do not count.
select count(*)
from (
  select
  from scheduled_actions a
  where a.status = 'processing'
    and a.executor = %(executor)s
    and a.announced_at is null
    and a.lease_expires_at > scheduled_actions_now()
  limit %(most)s
) untaken
