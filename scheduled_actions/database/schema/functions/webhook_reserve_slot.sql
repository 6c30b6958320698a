-- A slot under the rate limit is reserved if the delivery has to wait at most `patience` seconds; `wait` is that time.
-- Otherwise no slot is reserved, and `wait` is the time until all earlier deferred deliveries have been sent. The
-- deliveries of one second may be sent together.
-- Source: the generic cell rate algorithm (ITU-T I.371).
create or replace function webhook_reserve_slot(endpoint text, rate double precision, patience double precision)
  returns table (is_taken boolean, wait double precision)
  language plpgsql volatile
  as $$
  declare
    now constant timestamptz := clock_timestamp();
    step constant interval := make_interval(secs => 1 / rate);
    next_at timestamptz;
    queue_at timestamptz;
  begin
    insert into webhook_endpoint_states as s (endpoint) values (webhook_reserve_slot.endpoint) on conflict do nothing;
    select s.rate_next_at, s.rate_queue_at into next_at, queue_at
    from webhook_endpoint_states s where s.endpoint = webhook_reserve_slot.endpoint for update;
    next_at := greatest(next_at, now - greatest(interval '1 second' - step, interval '0'));
    wait := greatest(0, extract(epoch from next_at - clock_timestamp()));
    is_taken := wait <= patience;
    if not is_taken then
      queue_at := greatest(queue_at, next_at) + step;
      wait := extract(epoch from queue_at - now);
    end if;
    update webhook_endpoint_states s
    set
      rate_next_at = case when is_taken then next_at + step else s.rate_next_at end,
      rate_queue_at = queue_at
    where s.endpoint = webhook_reserve_slot.endpoint;
    return next;
  end
  $$;
