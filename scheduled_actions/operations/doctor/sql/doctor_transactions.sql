-- Returns the transactions in this database that are older than `seconds`, oldest first, twenty at most.
select s.pid, extract(epoch from clock_timestamp() - s.xact_start)::double precision
from pg_stat_activity s
where s.datname = current_database()
  and s.backend_type = 'client backend'
  and s.pid <> pg_backend_pid()
  and s.xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
order by s.xact_start
limit 20
