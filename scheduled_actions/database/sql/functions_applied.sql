-- Returns the recorded checksums of the functions that exist. A manually replaced function keeps its recorded checksum.
select f.name, f.checksum
from scheduled_action_functions f
where exists (
  select from pg_proc p
  join pg_class c on c.relnamespace = p.pronamespace
  where p.proname = f.name and c.oid = 'scheduled_action_functions'::regclass
)
