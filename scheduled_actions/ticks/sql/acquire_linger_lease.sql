-- This holder has the linger lease, unless another listener has it: a listener renews its lease every second, and loses it
-- five seconds after the last renewal.
insert into scheduled_action_settings as s (name, value)
values ('linger_lease', to_jsonb(%(holder)s::text))
on conflict (name) do update set value = excluded.value, updated_at = excluded.updated_at
where s.value = excluded.value
  or s.value ->> 0 not like 'listen:%%'
  or s.updated_at < scheduled_actions_now() - interval '5 seconds'
returning true
