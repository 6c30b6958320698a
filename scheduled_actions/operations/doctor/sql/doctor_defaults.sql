-- Returns the initial session settings of this role in this database for the parameters that our statements depend on.
select s.name, s.reset_val
from pg_settings s
where s.name in ('DateStyle', 'default_transaction_isolation', 'default_transaction_read_only')
order by s.name
