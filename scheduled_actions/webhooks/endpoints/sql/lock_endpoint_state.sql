-- What is known of an endpoint's failures, locked until the transaction ends; and the instant that it is.
insert into webhook_endpoint_states as s (endpoint)
values (%(endpoint)s)
on conflict (endpoint) do update set endpoint = excluded.endpoint
returning
  s.failing_since, s.last_failure_at, s.clock_started_at, s.warned_at, s.disabled_at is not null, scheduled_actions_now()
