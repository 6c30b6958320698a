-- Returns a row if the last sweep of schedules was more than `every_seconds` ago; this caller then owns the next sweep.
insert into scheduled_action_settings as s (name, value)
values ('last_sweep', 'true')
on conflict (name) do update set updated_at = excluded.updated_at
where s.updated_at < scheduled_actions_now() - make_interval(secs => %(every_seconds)s)
returning true
