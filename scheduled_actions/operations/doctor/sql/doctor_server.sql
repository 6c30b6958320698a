-- What the server is, in which encoding the database stores text, and whether this role sees the sessions of others.
select
  current_setting('server_version_num')::int / 10000,
  current_setting('server_encoding'),
  pg_has_role(current_user, 'pg_read_all_stats', 'usage')
