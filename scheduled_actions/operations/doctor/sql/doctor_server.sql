-- Returns the server's version, the encoding of the database, and whether this role can see other sessions.
select
  current_setting('server_version_num')::int / 10000,
  current_setting('server_encoding'),
  pg_has_role(current_user, 'pg_read_all_stats', 'usage')
