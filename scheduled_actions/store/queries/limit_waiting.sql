-- Until its end this transaction waits no longer for what another one holds.
select set_config('lock_timeout', %(milliseconds)s::text, true)
