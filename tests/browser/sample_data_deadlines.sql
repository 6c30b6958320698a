-- Deadlines of a company: a license in the middle of its escalation, a missed one, some in the future, some completed.
-- Days are in local time, and deadlines are due at nine, as the reminders say.
set time zone 'Europe/Berlin';
with told as (
  select
    d.*,
    jsonb_build_array(
      jsonb_build_object('key', 'reminder:60 days before', 'kind', 'reminder', 'offset', '60 days before', 'action_type', 'reminder:send',
        'state', 'begun', 'at', d.due - interval '60 days', 'occurrence', 1, 'begun', 1, 'last_at', d.due - interval '60 days'),
      jsonb_build_object('key', 'action:approval:start 30 days before', 'kind', 'action', 'offset', '30 days before', 'action_type', 'report:build',
        'state', 'begun', 'at', d.due - interval '30 days', 'occurrence', 1, 'begun', 1, 'last_at', d.due - interval '30 days'),
      jsonb_build_object('key', 'reminder:21 days before', 'kind', 'reminder', 'offset', '21 days before at 09:00', 'action_type', 'reminder:send',
        'state', 'begun', 'at', d.due - interval '21 days', 'occurrence', 1, 'begun', 1, 'last_at', d.due - interval '21 days'),
      jsonb_build_object('key', 'escalation:head', 'kind', 'escalation', 'offset', '14 days before', 'action_type', 'escalation:send',
        'state', case when d.is_near then 'begun' else 'planned' end, 'at', d.due - interval '14 days', 'occurrence', 1,
        'begun', d.is_near::int, 'to', '["head@nordlicht.example"]'::jsonb) ||
        case when d.is_near then jsonb_build_object('last_at', d.due - interval '14 days') else '{}' end,
      jsonb_build_object('key', 'reminder:7 days before', 'kind', 'reminder', 'offset', '7 days before at 09:00', 'action_type', 'reminder:send',
        'state', 'planned', 'at', d.due - interval '7 days', 'occurrence', 1),
      jsonb_build_object('key', 'reminder:1 day before', 'kind', 'reminder', 'offset', '1 day before at 09:00', 'action_type', 'reminder:send',
        'state', 'planned', 'at', d.due - interval '1 day', 'occurrence', 1),
      jsonb_build_object('key', 'due', 'kind', 'due', 'offset', 'when due', 'action_type', 'deadline:miss', 'state', 'planned', 'at', d.due, 'occurrence', 1),
      jsonb_build_object('key', 'escalation:cfo', 'kind', 'escalation', 'offset', '2 days after', 'action_type', 'escalation:send', 'state', 'planned',
        'at', d.due + interval '2 days', 'occurrence', 1, 'to', '["cfo@nordlicht.example"]'::jsonb)) as stages
  from (values
    ('0197a000-0000-7000-8000-00000000dead'::uuid, 'Trade license', 'license', '42', '["ann@nordlicht.example", "ben@nordlicht.example"]'::jsonb,
      date_trunc('day', now()) + interval '10 days 9 hours', true),
    ('0197a000-0000-7000-8000-00000000deae', 'ISO 27001 audit', 'audit', 'iso-2026', '["ciso@nordlicht.example"]', date_trunc('day', now()) + interval '16 days 9 hours', false)
  ) d (id, name, type, target, people, due, is_near)
)
insert into scheduled_action_deadlines (id, name, team_id, target_type, target_id, due_at, timezone, recipients, stages, history, created_by, created_at)
select
  t.id, t.name, 'north', t.type, t.target, t.due, 'Europe/Berlin', t.people, t.stages,
  (
    select jsonb_agg(
      jsonb_build_object('what', case s.value ->> 'kind' when 'reminder' then 'reminded' else 'escalated' end, 'at', s.value ->> 'last_at',
        'stage', s.value ->> 'key', 'occurrence', 1, 'to', coalesce(s.value -> 'to', t.people)))
    from jsonb_array_elements(t.stages) s where s.value ->> 'state' = 'begun' and s.value ->> 'kind' <> 'action'
  ),
  'token:ada', t.due - interval '75 days'
from told t;

insert into scheduled_action_deadlines (
  id, name, team_id, target_type, target_id, status, due_at, missed_at, closed_at, closed_by, days_late, recipients, stages, created_by, created_at)
select
  d.id, d.name, d.team, d.type, d.target, d.status, d.due, case d.status when 'missed' then d.due end,
  case d.status when 'completed' then d.due + d.late end, case d.status when 'completed' then 'token:ada' end,
  case d.status when 'completed' then greatest(0, ceil(extract(epoch from d.late) / 86400))::int end, d.people,
  jsonb_build_array(
    jsonb_build_object('key', 'reminder:3 days before', 'kind', 'reminder', 'offset', '3 days before', 'action_type', 'reminder:send',
      'state', 'begun', 'at', d.due - interval '3 days', 'occurrence', 1, 'begun', 1, 'last_at', d.due - interval '3 days'),
    jsonb_build_object('key', 'due', 'kind', 'due', 'offset', 'when due', 'action_type', 'deadline:miss',
      'state', 'begun', 'at', d.due, 'occurrence', 1, 'begun', 1, 'last_at', d.due)),
  'token:ada', d.due - interval '30 days'
from (values
  ('0197a000-0000-7000-8000-00000000deb0'::uuid, 'Purchase order 9', 'south', 'purchase_order', 'PO-9', 'missed', now() - interval '26 hours', interval '0', '["buyer@southwind.example"]'::jsonb),
  ('0197a000-0000-7000-8000-00000000deb1', 'Annual accounts', 'north', 'report', '2025', 'completed', now() - interval '9 days', interval '-2 days', '["finance@nordlicht.example"]'),
  ('0197a000-0000-7000-8000-00000000deb2', 'Fire safety check', 'north', 'building', 'b-1', 'completed', now() - interval '12 days', interval '30 hours', '["ben@nordlicht.example"]')
) d (id, name, team, type, target, status, due, late, people);

reset time zone;
