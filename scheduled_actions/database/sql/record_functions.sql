-- These versions of the functions are recorded.
insert into scheduled_action_functions as f (name, checksum)
select t.name, t.checksum from unnest(%(names)s::text[], %(checksums)s::text[]) t (name, checksum)
on conflict (name) do update set checksum = excluded.checksum, applied_at = excluded.applied_at
