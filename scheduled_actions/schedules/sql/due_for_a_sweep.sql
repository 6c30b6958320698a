-- Whether the schedules have not been swept for so many seconds; then the sweep is this caller's.
insert into scheduled_action_settings as s (name, value)
values ('last_sweep', 'true')
on conflict (name) do update set updated_at = excluded.updated_at
where s.updated_at < scheduled_actions_now() - make_interval(secs => %(every_seconds)s)
returning true
