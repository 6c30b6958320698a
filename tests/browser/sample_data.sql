-- Returns an id with the timestamp of `at`, because lists are ordered by id.
create function pg_temp.id_at(at timestamptz) returns uuid language sql volatile as $$
  select (
    lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(md5(random()::text), 1, 3)
    || '8' || substr(md5(random()::text), 1, 15))::uuid
$$;

-- A tick a minute for a week, and one night without pings.
insert into scheduled_action_ticks (id, started_at, finished_at, lease_expires_at, caller, outcome, counts, budget)
select
  scheduled_actions_uuid7(), t.at, t.at + make_interval(secs => 0.2 + random() * 3), t.at + interval '70 seconds',
  'cron-job.org', 'finished',
  jsonb_build_object(
    'succeeded', t.load, 'failed', (random() < 0.02)::int, 'retried', (random() * 1.1)::int, 'snoozed', 0,
    'skipped', 0, 'rescued', 0, 'pruned', 0, 'remaining', 0, 'processed', t.load),
  jsonb_build_object('max_run_seconds', 20, 'max_duration_seconds', 55)
from (
  select
    s.at,
    greatest(0, (6 + 5 * sin(extract(epoch from s.at) / 13750.99) + 3 * sin(extract(epoch from s.at) / 1100) + 6 * random() - 2))::int as load
  from generate_series(now() - interval '7 days' - interval '14 seconds', now() - interval '9 seconds', interval '1 minute') s (at)
  where not (s.at between now() - interval '31 hours' and now() - interval '30 hours 10 minutes')
) t;

-- Actions completed within a day.
insert into scheduled_actions (
  id, action_type, status, payload, team_id, scheduled_at, started_at, completed_at, attempts, max_attempts, created_by,
  created_at, result)
select
  pg_temp.id_at(s.at - interval '30 seconds'),
  (array['email:welcome', 'invoice:send', 'search:index', 'search:index', 'payment:charge', 'report:build'])[1 + n % 6],
  'completed', jsonb_build_object('document', n), (array['north', 'south', null])[1 + n % 3],
  s.at, s.at + s.late, s.at + s.late + make_interval(secs => 0.05 + random()), 1, 3, 'token:shop', s.at - interval '30 seconds',
  jsonb_build_object('done', true)
from (
  select
    n, now() - make_interval(secs => (4000 - n) * 21.6 + 20) as at,
    make_interval(secs => 2 + 22 * random() + 40 * power(random(), 18)) as late
  from generate_series(1, 3990) n
) s
order by n;

-- Actions that failed in the last hour.
insert into scheduled_actions (
  id, action_type, status, payload, team_id, scheduled_at, started_at, completed_at, attempts, max_attempts, error_message,
  created_by, created_at, history)
select
  pg_temp.id_at(f.at - interval '12 minutes'),
  f.type, 'failed', jsonb_build_object('order', 7000 + n), (array['north', 'south'])[1 + n % 2], f.at, f.at + interval '9 seconds',
  f.at + interval '11 seconds', 3, 3, f.error, 'token:shop', f.at - interval '12 minutes',
  jsonb_build_array(
    jsonb_build_object('attempt', 1, 'outcome', 'failed', 'started_at', f.at - interval '9 minutes', 'ended_at', f.at - interval '8 minutes', 'error', f.error),
    jsonb_build_object('attempt', 2, 'outcome', 'failed', 'started_at', f.at - interval '5 minutes', 'ended_at', f.at - interval '4 minutes', 'error', f.error),
    jsonb_build_object('attempt', 3, 'outcome', 'failed', 'started_at', f.at + interval '9 seconds', 'ended_at', f.at + interval '11 seconds', 'error', f.error))
from (
  select
    n, now() - make_interval(secs => (14 - n) * 190 + 60) as at,
    case when n % 3 = 0 then 'email:welcome' when n % 7 = 0 then 'report:build' else 'payment:charge' end as type,
    case when n % 3 = 0 then 'SMTPRecipientsRefused: 550 no such user here'
      when n % 7 = 0 then 'TimedOut: the handler was still at work after 55 s'
      else 'CardDeclined: the issuer answered do_not_honor (code 05)' end as error
  from generate_series(1, 13) n
) f
order by n;

-- Pending actions.
insert into scheduled_actions (
  id, action_type, status, payload, team_id, scheduled_at, priority, created_by, lock_group, created_at)
select
  pg_temp.id_at(now() - make_interval(secs => (141 - n) * 31)),
  (array['invoice:send', 'email:welcome', 'search:index', 'report:build'])[1 + n % 4], 'pending',
  jsonb_build_object('document', n), (array['north', 'south', null])[1 + n % 3],
  now() + make_interval(secs => n * 97 + 20 * power(1.05, n / 4.0)), case when n % 9 = 0 then -5 else 0 end,
  (array['token:shop', 'api:admin'])[1 + n % 2], case when n % 4 = 3 then 'reports' end, now() - make_interval(secs => (141 - n) * 31)
from generate_series(1, 140) n;

-- Running and skipped actions, and actions without a handler.
insert into scheduled_actions (
  id, action_type, status, payload, team_id, scheduled_at, created_at, started_at, completed_at, claim_token, lease_expires_at,
  error_message, attempts, max_attempts, target_type, target_id)
select
  pg_temp.id_at(now() - o.ago), o.action_type, o.status, '{}', o.team_id, now() - o.ago, now() - o.ago, now() - interval '4 seconds',
  case when o.status in ('cancelled', 'skipped', 'failed') then now() - interval '3 seconds' end,
  case when o.status = 'processing' then gen_random_uuid() end,
  case when o.status = 'processing' then now() + interval '70 seconds' end, o.error, o.attempts, 4, o.target_type, o.target_id
from (
  values
    ('report:build', 'processing', 'north', interval '20 seconds', null, 0, 'team', 'north'),
    ('payment:charge', 'processing', 'south', interval '41 seconds', null, 1, 'order', '7213'),
    ('payment:charge', 'failed', 'north', interval '75 seconds', 'CardDeclined: the issuer answered do_not_honor (code 05)', 4, 'order', '7198'),
    ('email:digest', 'no_action', 'south', interval '118 seconds', 'no handler of "email:digest" in this build', 0, null, null),
    ('email:welcome', 'skipped', 'north', interval '160 seconds', 'the user has left', 1, 'user', 'grace'),
    ('invoice:send', 'cancelled', 'south', interval '211 seconds', 'the order was withdrawn', 0, 'invoice', '2026-0399')
) o (action_type, status, team_id, ago, error, attempts, target_type, target_id);

-- One invoice with a history.
insert into scheduled_actions (
  id, action_type, status, payload, team_id, scheduled_at, started_at, attempts, max_attempts, error_message, target_type,
  target_id, user_id, created_by, created_at, dedup_key, metadata, history)
values (
  '0197a000-0000-7000-8000-0000000004d2', 'invoice:send', 'pending', '{"number": "2026-0418", "customer": "Nordlicht GmbH", "total": 1249.9, "currency": "EUR", "due_on": "2026-12-05",
    "reminders": true, "lines": [{"article": "Team plan, 12 months", "amount": 1}, {"article": "Onboarding", "amount": 2}],
    "notes": ["VAT id checked"]}', 'north', now() + interval '7 minutes 12 seconds',
  now() - interval '50 seconds', 2, 5, 'ConnectionResetError: smtp.mail.example closed the connection', 'invoice', '2026-0418',
  'ada', 'token:shop', now() - interval '40 minutes', 'invoice:2026-0418', '{"campaign": "year end"}',
  jsonb_build_array(
    jsonb_build_object('outcome', 'updated', 'at', now() - interval '30 minutes', 'by', 'token:ops', 'changes', jsonb_build_array('scheduled_at', 'payload')),
    jsonb_build_object('attempt', 1, 'outcome', 'failed', 'started_at', now() - interval '6 minutes', 'ended_at', now() - interval '5 minutes 58 seconds', 'error', 'TimeoutError: smtp.mail.example did not answer in 10 s'),
    jsonb_build_object('attempt', 2, 'outcome', 'failed', 'started_at', now() - interval '50 seconds', 'ended_at', now() - interval '49 seconds', 'error', 'ConnectionResetError: smtp.mail.example closed the connection')));
