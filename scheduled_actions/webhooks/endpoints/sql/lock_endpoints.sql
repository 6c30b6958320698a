-- Nobody else makes an endpoint until the transaction ends: so many as a team may have are not counted by two at once.
select pg_advisory_xact_lock(hashtextextended('webhook_endpoints:' || coalesce(%(team_id)s::text, ''), 0))
