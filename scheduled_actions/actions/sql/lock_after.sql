-- Changes of `after` dependencies are serialized until the transaction ends, because two concurrent changes could
-- create a cycle.
select pg_advisory_xact_lock(hashtextextended('scheduled_actions.after', 0))
