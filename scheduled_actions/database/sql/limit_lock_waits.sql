-- For the rest of the transaction, each wait for a lock is limited to this time.
select set_config('lock_timeout', %(milliseconds)s, true)
