-- Returns the migrations that the database has recorded. Builds before the baseline had no column for checksums.
select m.number, m.name, to_jsonb(m) ->> 'checksum'
from scheduled_action_migrations m
