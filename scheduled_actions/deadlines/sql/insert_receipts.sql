-- The receipts of notifications are stored with their deadlines; those for deadlines of other teams are left out.
insert into scheduled_action_deadline_notices (
  deadline_id, stage, action_id, subject, recipient, person_key, channel, address, message_id, problem
)
select
  n.deadline_id, coalesce(n.stage, ''), n.action_id, n.subject, n.recipient, n.person_key, n.channel, n.address,
  n.message_id, n.problem
from jsonb_to_recordset(%(receipts)s::jsonb) as n (
  deadline_id uuid, stage text, action_id uuid, subject text, recipient text, person_key text, channel text,
  address text, message_id text, problem text
)
join scheduled_action_deadlines d on d.id = n.deadline_id and d.team_id is not distinct from %(team_id)s
