-- No other transaction can create endpoints of the team until this one ends, so that concurrent transactions cannot
-- exceed its maximum.
select pg_advisory_xact_lock(hashtextextended('webhook_endpoints:' || coalesce(%(team_id)s::text, ''), 0))
