-- This migration is recorded.
insert into scheduled_action_migrations (number, name, checksum)
values (%(number)s, %(name)s, %(checksum)s)
