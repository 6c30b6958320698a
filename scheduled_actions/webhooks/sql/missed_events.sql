-- Returns at most `limit` events after the cursor, in order, that were routed between two instants, but not to this
-- endpoint.
select a.id, a.completed_at, a.team_id, a.payload
from scheduled_actions a
where a.status = %(status)s
  and a.completed_at >= %(since)s
  and a.completed_at < %(until)s
  and (%(after_at)s::timestamptz is null or (a.completed_at, a.id) > (%(after_at)s, %(after_id)s::uuid))
  and a.action_type = 'webhook:send'
  and not a.payload ? 'endpoint'
  and not coalesce(a.result -> 'endpoints' ? %(endpoint)s, false)
  and (%(team_id)s::text is null or a.team_id = %(team_id)s)
order by a.completed_at, a.id
limit %(limit)s
