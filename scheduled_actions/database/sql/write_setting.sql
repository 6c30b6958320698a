-- The shared value is stored.
insert into scheduled_action_settings as s (name, value)
values (%(name)s, %(value)s::jsonb)
on conflict (name) do update set value = excluded.value, updated_at = excluded.updated_at
where s.value is distinct from excluded.value
