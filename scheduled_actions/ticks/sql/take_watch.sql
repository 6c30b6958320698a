-- The watch is this holder's, unless a listener keeps it: that one renews it every second, and is gone after five.
insert into scheduled_action_settings as s (name, value)
values ('watch', to_jsonb(%(holder)s::text))
on conflict (name) do update set value = excluded.value, updated_at = excluded.updated_at
where s.value = excluded.value
  or s.value ->> 0 not like 'listen:%%'
  or s.updated_at < scheduled_actions_now() - interval '5 seconds'
returning true
