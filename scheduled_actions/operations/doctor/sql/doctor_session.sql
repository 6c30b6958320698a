-- Returns the process id of the server's backend.
select pg_backend_pid()
