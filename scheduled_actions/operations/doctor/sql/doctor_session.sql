-- The server's process that serves this statement.
select pg_backend_pid()
