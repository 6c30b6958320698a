-- Returns which of these running actions were asked to stop.
select a.id
from scheduled_actions a
where a.id = any (%(ids)s::uuid[]) and a.cancel_requested_at is not null and a.status = 'processing'
