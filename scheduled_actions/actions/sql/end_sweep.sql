-- The next sweep of waiting actions starts after this action; null: with the first one.
insert into scheduled_action_settings (name, value)
values ('waits_sweep', coalesce(to_jsonb(%(after_id)s::uuid), 'null'))
on conflict (name) do update set value = excluded.value, updated_at = scheduled_actions_now()
