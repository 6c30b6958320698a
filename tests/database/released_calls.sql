-- The public calls of each release, as applications use them in their SQL. They must work with the current schema. Add a call
-- for each new argument, and the calls of each release. From 0.1.0 on, never change an existing one. A call is a block;
-- `answers` lists its columns.

-- release: 0.1.0
-- answers: id, deduplicated
select * from schedule_action('invoice:send');

-- release: 0.1.0
-- answers: id, deduplicated
select * from schedule_action(
  'invoice:send', '{"invoice": 42}', now() + interval '1 day', 'acme', -5, 3, '[60, 600]', 'customer:7', true, 'invoice:42',
  60, 'first', '{"type": "invoice", "id": "42"}', 'user:7', '{"source": "sql"}', 'billing',
  '{"kind": "document_state", "target": {"type": "invoice", "id": "42"}, "state": "paid"}', '{}', '[{"action_type": "invoice:sent"}]', '{"action_type": "invoice:failed"}');

-- release: 0.1.0
-- answers: id, deduplicated
select * from schedule_action(
  action_type => 'invoice:send',
  payload => '{"invoice": 42}',
  scheduled_at => now() + interval '1 day',
  team_id => 'acme',
  priority => -5,
  max_attempts => 3,
  retry => '{"kind": "exponential", "base_seconds": 60}',
  lock_group => 'customer:7',
  lock_group_blocks => true,
  dedup_key => 'invoice:42',
  dedup_window => 60,
  dedup_mode => 'append',
  target => '{"type": "invoice", "id": "42"}',
  user_id => 'user:7',
  metadata => '{"source": "sql"}',
  created_by => 'billing',
  condition => '{"kind": "document_state", "target": {"type": "invoice", "id": "42"}, "state": "paid"}',
  after => array[]::uuid[],
  on_success => '[{"action_type": "invoice:sent", "payload": {}}]',
  on_failure => '[{"action_type": "invoice:failed", "delay": 60}]',
  limits => '{api:acme,reports}',
  expires_at => now() + interval '2 days',
  on_expiry => 'fail');

-- release: 0.1.0
-- answers: id, deduplicated
select * from schedule_action('invoice:send', expires_in => interval '1 hour');

-- release: 0.1.0
-- answers: id, deduplicated
select * from schedule_actions('[
  {"action_type": "invoice:send", "payload": {"invoice": 42}, "delay": 60},
  {"action_type": "invoice:send", "scheduled_at": "2030-01-01T00:00:00Z", "team_id": "acme", "priority": 1, "max_attempts": 3,
   "retry": [60], "lock_group": "g", "lock_group_blocks": true, "dedup_key": "k", "dedup_window": 5, "dedup_mode": "latest",
   "target": {"type": "invoice", "id": "42"}, "user_id": "u", "metadata": {}, "created_by": "billing",
   "condition": {"kind": "document_state", "target": {"type": "invoice", "id": "42"}, "state": "paid"}, "after": [], "on_success": {"action_type": "a:b"}, "on_failure": [],
   "limit": ["api:acme"], "expires_at": "2030-01-02T00:00:00Z", "on_expiry": "fail"},
  {"action_type": "invoice:send", "limit": "api:acme", "expires_in": 3600, "on_expiry": "skip"}
]');

-- release: 0.1.0
-- answers: id, deduplicated
select * from schedule_actions(new_actions => '[{"action_type": "invoice:send"}]');

-- release: 0.1.0
-- answers: id, deduplicated
select * from schedule_action('webhook:send', '{"event": "invoice:paid", "entity_type": "invoice", "entity_id": "42", "data": {}}');

-- release: 0.1.0
-- answers: id, deduplicated
select * from emit_event('invoice:paid', '42', '{"total": 5}');

-- release: 0.1.0
-- answers: id, deduplicated
select * from emit_event(
  event => 'invoice:paid', entity_id => '42', data => '{"total": 5}', team_id => 'acme', endpoint => 'crm');

-- release: 0.1.0
-- answers: id
select * from schedule_recurring_action('invoice:send', '{"invoice": 42}', '0 9 * * 1');

-- release: 0.1.0
-- answers: id
select * from schedule_recurring_action(
  action_type => 'invoice:send',
  payload => '{"invoice": 42}',
  recurrence => '0 9 * * 1',
  scheduled_at => now() + interval '1 day',
  timezone => 'Europe/Berlin',
  name => 'weekly-invoices',
  recurrence_type => 'fixed',
  misfire => 'catch_up',
  misfire_grace_seconds => 60,
  catch_up_limit => 3,
  catch_up_seconds => 86400,
  overlap => 'queue',
  requires_previous => true,
  pause_after_failures => 3,
  skip => '{"weekends": true}',
  jitter_seconds => 5,
  until => now() + interval '1 year',
  remaining => 10,
  team_id => 'acme',
  priority => -5,
  max_attempts => 3,
  retry => '[60, 600]',
  lock_group => 'customer:7',
  lock_group_blocks => true,
  target => '{"type": "invoice", "id": "42"}',
  user_id => 'user:7',
  metadata => '{"source": "sql"}',
  condition => '{"kind": "document_state", "target": {"type": "invoice", "id": "42"}, "state": "paid"}',
  on_success => '[{"action_type": "invoice:sent"}]',
  on_failure => '[{"action_type": "invoice:failed"}]',
  limits => '{api:acme}',
  expires_in => interval '1 hour',
  on_expiry => 'fail',
  created_by => 'billing');

-- release: 0.1.0
-- answers: id
select * from set_deadline('{"type": "license", "id": "42"}', now() + interval '90 days');

-- release: 0.1.0
-- answers: id
select * from set_deadline(
  target => '{"type": "license", "id": "42"}',
  due_at => now() + interval '90 days',
  reminders => '["30 days before"]',
  escalation => '[{"offset": "2 days after", "to": "cfo@example.org"}]',
  auto_actions => '[{"offset": "when due", "action_type": "license:renew"}]',
  recipients => '"ann@example.org"',
  recurrence => 'yearly',
  timezone => 'Europe/Berlin',
  calendar => '{"holidays": "US"}',
  team_id => 'acme',
  name => 'license-42',
  metadata => '{"source": "sql"}',
  created_by => 'billing');

-- release: 0.1.0
-- answers: changed, has_waiters
select * from report_fact('{"type": "invoice", "id": "42"}', 'paid', 'true');

-- release: 0.1.0
-- answers: changed, has_waiters
select * from report_fact(
  target => '{"type": "invoice", "id": "42"}', name => 'paid', value => 'true', team_id => 'acme', reported_by => 'billing');

-- release: 0.1.0
-- answers: scheduled_actions_watch
create table invoices (id integer primary key, team text, amount integer);
select scheduled_actions_watch('invoices', 'invoice');

-- release: 0.1.0
-- answers: scheduled_actions_watch
create table invoices (id integer primary key, team text, amount integer);
select scheduled_actions_watch(
  'invoices', entity => 'invoice', id_columns => '{id}', team_column => 'team', columns => '{amount}',
  verbs => '{created,updated}', dedup_window => 5);

-- release: 0.1.0
-- answers: scheduled_actions_unwatch
create table invoices (id integer primary key);
select scheduled_actions_watch('invoices', 'invoice');
select scheduled_actions_unwatch('invoices', entity => 'invoice');

-- release: 0.1.0
-- answers: scheduled_actions_unwatch
create table invoices (id integer primary key);
select scheduled_actions_watch(watched => 'invoices', entity => 'invoice');
select scheduled_actions_unwatch(watched => 'invoices');

-- release: 0.1.0
-- answers: scheduled_actions_pause
select scheduled_actions_pause('action_type', 'invoice:send');

-- release: 0.1.0
-- answers: scheduled_actions_pause
select scheduled_actions_pause(
  kind => 'limit', name => 'api:acme', team_id => 'red', note => 'provider down', paused_by => 'ann',
  ends_at => now() + interval '1 hour');

-- release: 0.1.0
-- answers: scheduled_actions_resume
select scheduled_actions_resume('team', 'red');

-- release: 0.1.0
-- answers: scheduled_actions_resume
select scheduled_actions_resume(kind => 'lock_group', name => 'invoices', team_id => 'red');

-- release: 0.1.0
-- answers: scheduled_actions_now
select scheduled_actions_now();

-- release: 0.1.0
-- answers: id, status, endpoint, team_id, event, entity_type, entity_id, attempts, max_attempts, next_attempt_at, response_status, error, attempt_log, event_action_id, lock_group, started_at, completed_at, created_at, updated_at
select * from webhook_deliveries;
