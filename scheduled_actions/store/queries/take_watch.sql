-- The watch is this tick's: the one that kept it before sees so within a second, and answers.
insert into scheduled_action_settings as s (name, value)
values ('watch', to_jsonb(%(tick_id)s::text))
on conflict (name) do update set value = excluded.value, updated_at = excluded.updated_at
