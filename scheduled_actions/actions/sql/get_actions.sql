-- Returns these actions, newest first.
select
  -- include: actions/action_columns
from scheduled_actions a
where a.id = any (%(ids)s)
order by a.id desc
