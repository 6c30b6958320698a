-- Each wait for a lock is limited to this time until the transaction ends.
select set_config('lock_timeout', %(milliseconds)s, true)
