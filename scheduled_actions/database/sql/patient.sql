-- Until the transaction ends, a lock is not waited for longer than so many milliseconds.
select set_config('lock_timeout', %(patience_ms)s, true)
