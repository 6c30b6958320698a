-- The finished action is deleted, and the actions that wait for it are woken. No row if it has not ended.
with purged as (
  delete from scheduled_actions a
  where a.id = %(id)s
    and a.status in ('completed', 'failed', 'cancelled', 'skipped')
    and (%(team_id)s::text is null or a.team_id = %(team_id)s)
  returning a.*
),
changed as (
  insert into scheduled_action_wakes (topic) select p.id from purged p where p.has_waiters
)
select
  -- include: actions/action_columns
from purged a
