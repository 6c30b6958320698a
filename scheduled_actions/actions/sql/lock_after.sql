-- No other transaction changes what an action comes after until this one ends: two such changes at once could make actions wait
-- for one another.
select pg_advisory_xact_lock(hashtextextended('scheduled_actions.after', 0))
