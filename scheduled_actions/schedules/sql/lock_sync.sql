-- Nobody else brings the declared schedules up to date until the transaction ends.
select pg_advisory_xact_lock(hashtext('scheduled_actions.declared_schedules'))
