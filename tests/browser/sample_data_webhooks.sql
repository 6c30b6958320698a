-- Endpoints: one healthy, one failing, one disabled; and their deliveries.
with made as (
  insert into webhook_endpoints (id, team_id, url, description, patterns, ordering, rate_limit, header_names, secret, created_by, created_at)
  values
    ('0197a000-0000-7000-8000-00000000e001', null, 'https://hooks.warehouse.example/orders', 'Packs what was ordered',
      '{order:*,stock:low}', 'fifo', null, '{X-Warehouse}', 'sealed', 'token:ops', now() - interval '70 days'),
    ('0197a000-0000-7000-8000-00000000e002', 'north', 'https://books.nordlicht.example/in', 'Bookkeeping of Nordlicht',
      '{invoice:*,payment:*}', 'none', 5, '{}', 'sealed', 'token:ada', now() - interval '41 days'),
    ('0197a000-0000-7000-8000-00000000e003', 'south', 'https://crm.southwind.example/events', 'Customer records',
      '{customer:*}', 'none', null, '{}', 'sealed', 'token:ben', now() - interval '20 days')
  returning id
)
insert into webhook_endpoint_states (endpoint, failing_since, last_failure_at, clock_started_at, warned_at, disabled_at, disabled_reason)
values
  ('0197a000-0000-7000-8000-00000000e002', now() - interval '47 minutes', now() - interval '3 minutes', null, null, null, null),
  ('0197a000-0000-7000-8000-00000000e003', now() - interval '6 days', now() - interval '5 hours', now() - interval '5 days 10 hours',
    now() - interval '2 days', now() - interval '5 hours', 'it has failed for five days: its last answer was 410');

insert into webhook_event_types (team_id, event, first_seen_at, last_seen_at)
select t.team_id, t.event, now() - interval '70 days', now() - t.ago
from (values
  ('north', 'invoice:paid', interval '4 minutes'), ('north', 'invoice:sent', interval '9 minutes'),
  ('north', 'payment:failed', interval '3 minutes'), ('', 'order:placed', interval '40 seconds'),
  ('', 'order:shipped', interval '6 minutes'), ('', 'stock:low', interval '3 hours'),
  ('south', 'customer:changed', interval '5 hours')
) t (team_id, event, ago);

-- Deliveries that succeeded within a day.
insert into scheduled_actions (
  action_type, status, payload, team_id, scheduled_at, started_at, completed_at, attempts, max_attempts, created_by, created_at,
  result, metadata)
select
  'webhook:send', 'completed',
  jsonb_build_object(
    'event', (array['order:placed', 'order:shipped', 'stock:low'])[1 + n % 3], 'entity_type', 'order', 'entity_id', (88000 + n)::text,
    'endpoint', '0197a000-0000-7000-8000-00000000e001',
    'data', jsonb_build_object('total', 19 + n, 'currency', 'EUR', 'lines', jsonb_build_array(jsonb_build_object('article', 'Lamp', 'amount', 1 + n % 4)))),
  null, now() - make_interval(secs => n * 610), now() - make_interval(secs => n * 610 - 5), now() - make_interval(secs => n * 610 - 6),
  1, 10, 'token:shop', now() - make_interval(secs => n * 610), jsonb_build_object('status', 200, 'duration_ms', 84 + n % 50, 'answer', 'ok'),
  jsonb_build_object('event_action_id', scheduled_actions_uuid7())
from generate_series(140, 1, -1) n;

-- Deliveries that have been failing for an hour.
insert into scheduled_actions (
  id, action_type, status, payload, team_id, scheduled_at, started_at, completed_at, attempts, max_attempts, error_message,
  created_by, created_at, history)
select
  case when n = 1 then '01b00000-0000-7000-8000-00000000d001'::uuid else scheduled_actions_uuid7() end,
  'webhook:send', d.status,
  jsonb_build_object(
    'event', (array['invoice:paid', 'payment:failed'])[1 + n % 2], 'entity_type', 'invoice', 'entity_id', '2026-04' || (10 + n)::text,
    'endpoint', '0197a000-0000-7000-8000-00000000e002',
    'data', jsonb_build_object('number', '2026-04' || (10 + n)::text, 'total', 1249.9, 'customer', jsonb_build_object('name', 'Nordlicht GmbH', 'country', 'DE'))),
  'north', case d.status when 'pending' then now() + make_interval(secs => n * 140) else d.at end, d.at, case d.status when 'failed' then d.at + interval '2 seconds' end,
  3, case d.status when 'failed' then 3 else 10 end, d.error, 'token:shop', d.at - interval '20 minutes',
  jsonb_build_array(
    jsonb_build_object('attempt', 1, 'outcome', 'failed', 'started_at', d.at - interval '9 minutes', 'ended_at', d.at - interval '8 minutes 59.6 seconds', 'error', 'DeliveryFailed: endpoint "0197a000-0000-7000-8000-00000000e002" answered 502: Bad Gateway'),
    jsonb_build_object('attempt', 2, 'outcome', 'failed', 'started_at', d.at - interval '5 minutes', 'ended_at', d.at - interval '4 minutes 50 seconds', 'error', 'DeliveryFailed: endpoint "0197a000-0000-7000-8000-00000000e002" did not answer in 10 s'),
    jsonb_build_object('attempt', 3, 'outcome', 'failed', 'started_at', d.at, 'ended_at', d.at + interval '0.31 seconds', 'error', d.error))
from (
  select
    n, now() - make_interval(secs => n * 420 + 180) as at, case when n > 4 then 'failed' else 'pending' end as status,
    'DeliveryFailed: endpoint "0197a000-0000-7000-8000-00000000e002" answered 503: {"error": "maintenance until four"}' as error
  from generate_series(6, 1, -1) n
) d;
