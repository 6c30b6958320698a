-- The failure state of the endpoint is locked until the transaction ends. Returns it with the current time.
insert into webhook_endpoint_states as s (endpoint)
values (%(endpoint)s)
on conflict (endpoint) do update set endpoint = excluded.endpoint
returning
  s.failing_since, s.last_failure_at, s.clock_started_at, s.warned_at, s.disabled_at is not null, scheduled_actions_now()
