-- Returns the ids of those running actions whose cancellation was requested.
select a.id
from scheduled_actions a
where a.id = any (%(ids)s::uuid[]) and a.cancel_requested_at is not null and a.status = 'processing'
