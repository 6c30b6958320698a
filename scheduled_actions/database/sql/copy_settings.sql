-- What the SQL functions need of the project's settings stands in the database; unchanged settings write nothing.
insert into scheduled_action_settings as s (name, value)
values ('dedup_window', %(dedup_window)s::jsonb)
on conflict (name) do update
set value = excluded.value, updated_at = scheduled_actions_now()
where s.value <> excluded.value
