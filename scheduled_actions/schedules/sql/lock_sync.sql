-- Synchronisation of declared schedules is locked until the transaction ends.
select pg_advisory_xact_lock(hashtext('scheduled_actions.declared_schedules'))
