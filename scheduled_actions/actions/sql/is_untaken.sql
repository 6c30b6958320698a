-- Returns whether an action is claimed for an executor, and no worker has taken it over.
select exists (
  select
  from scheduled_actions a
  where a.id = %(id)s and a.status = 'processing' and a.executor is not null and a.announced_at is null
)
