-- The coming weeks: daily and weekly schedules, each with its planned occurrence.
with made as (
  insert into scheduled_action_schedules (
    name, action_type, payload, team_id, recurrence, kind, timezone, anchor_at, next_occurrence_at, user_id, created_by, created_at)
  select
    s.name, s.type, '{}', s.team, s.rule, 'cron', 'Europe/Berlin', now() - interval '40 days',
    (date_trunc('day', now() at time zone 'Europe/Berlin') + s.ahead) at time zone 'Europe/Berlin', 'ada', 'token:shop',
    now() - interval '40 days'
  from (values
    ('dunning-run', 'invoice:send', 'north', '0 10 * * MON-FRI', interval '34 hours'),
    ('trial-reminders', 'email:welcome', 'south', '30 8 * * TUE,THU', interval '80 hours 30 minutes'),
    ('backup', 'search:index', null, '0 3 * * *', interval '27 hours')
  ) s (name, type, team, rule, ahead)
  returning *
),
planned as (
  insert into scheduled_actions (action_type, payload, team_id, scheduled_at, occurrence_at, schedule_id, created_by)
  select m.action_type, m.payload, m.team_id, m.next_occurrence_at, m.next_occurrence_at, m.id, m.created_by
  from made m
  returning id, schedule_id
)
select count(*) from planned;

update scheduled_action_schedules s
set next_action_id = a.id
from scheduled_actions a
where a.schedule_id = s.id and a.status = 'pending' and s.status = 'active' and s.next_action_id is null;

-- Deadlines, each with a pending reminder.
with made as (
  insert into scheduled_action_deadlines (name, team_id, target_type, target_id, due_at, recipients, stages, created_by)
  select
    d.name, 'north', d.target, d.id, d.due, '["ada"]',
    jsonb_build_array(
      jsonb_build_object(
        'key', 'reminder:2 days before', 'kind', 'reminder', 'offset', '2 days before', 'action_type', 'reminder:send',
        'state', 'planned', 'at', d.due - interval '2 days', 'occurrence', 1),
      jsonb_build_object(
        'key', 'due', 'kind', 'due', 'offset', 'at the due instant', 'action_type', 'deadline:miss', 'state', 'planned',
        'at', d.due, 'occurrence', 1)),
    'token:ops'
  from (values
    ('VAT return', 'filing', '2026-10', date_trunc('day', now()) + interval '3 days 17 hours'),
    ('Data centre lease', 'contract', 'dc-2', date_trunc('day', now()) + interval '6 days 11 hours')
  ) d (name, target, id, due)
  returning *
)
insert into scheduled_actions (action_type, payload, team_id, scheduled_at, deadline_id, deadline_stage, created_by)
select 'reminder:send', '{}', m.team_id, m.due_at - interval '2 days', m.id, 'reminder:2 days before#1', 'token:ops'
from made m;
