-- Schedules of a company: each active one with its planned occurrence, and the outcomes of the latest ones.
with made as (
  insert into scheduled_action_schedules (
    name, action_type, payload, team_id, recurrence, kind, timezone, anchor_at, skip, status, status_reason, status_by,
    status_at, next_occurrence_at, executions, skipped, created_by, created_at)
  select
    s.name, s.type, s.payload::jsonb, s.team, s.rule, s.kind, s.zone, now() - interval '60 days', s.skip::jsonb, s.status,
    s.note, s.by, case when s.by is not null then now() - interval '2 hours' end,
    case when s.status = 'active' then date_trunc('hour', now()) + s.ahead end, s.runs, 2, 'token:shop',
    now() - interval '60 days'
  from (values
    ('weekly-report', 'report:build', '{"week": "this"}', 'north', '0 9 * * MON', 'cron', 'Europe/Berlin', null,
      'active', null, null, interval '31 hours', 9),
    ('month-end-invoices', 'invoice:send', '{"number": "2026-0041", "customer": "Ada", "total": 420}', 'south',
      'last business day of the month at 17:00', 'business_day', 'America/New_York', '{"holidays": "US"}', 'active', null,
      null, interval '6 days', 3),
    ('reindex', 'search:index', '{"all": true}', null, 'every 10 minutes', 'interval', 'UTC', null, 'active', null, null,
      interval '70 minutes', 8640),
    ('nightly-charge', 'payment:charge', '{"batch": "night"}', 'north', '30 2 * * *', 'cron', 'America/New_York', null,
      'paused', 'the bank is being changed', 'token:ann', interval '0', 58)
  ) s (name, type, payload, team, rule, kind, zone, skip, status, note, by, ahead, runs)
  returning *
),
planned as (
  insert into scheduled_actions (id, action_type, payload, team_id, scheduled_at, occurrence_at, schedule_id, created_by)
  select pg_temp.id_at(now() - interval '3 hours'), m.action_type, m.payload, m.team_id, m.next_occurrence_at, m.next_occurrence_at, m.id, m.created_by
  from made m
  where m.status = 'active'
  returning id, schedule_id
)
insert into scheduled_actions (
  id, action_type, status, payload, team_id, scheduled_at, occurrence_at, started_at, completed_at, attempts, schedule_id,
  created_by, error_message)
select
  pg_temp.id_at(o.at - interval '1 hour'), m.action_type, o.status, m.payload, m.team_id, o.at, o.at,
  case when o.status <> 'skipped' then o.at + interval '2 seconds' end, o.at + interval '5 seconds',
  (o.status <> 'skipped')::int, m.id, m.created_by,
  case o.status when 'failed' then 'TimeoutError: the bank did not answer' end
from made m
cross join lateral (
  select
    date_trunc('hour', now()) - n * case m.kind when 'interval' then interval '10 minutes' else interval '1 day' end as at,
    case when m.name = 'nightly-charge' and n < 4 then 'failed' when n = 9 then 'skipped' else 'completed' end as status
  from generate_series(1, 14) n
) o;

update scheduled_action_schedules s
set next_action_id = a.id
from scheduled_actions a
where a.schedule_id = s.id and a.status = 'pending' and s.status = 'active';
