-- What sessions of this role begin with in this database, of the parameters that our statements depend on.
select s.name, s.reset_val
from pg_settings s
where s.name in ('DateStyle', 'default_transaction_isolation', 'default_transaction_read_only')
order by s.name
