-- What was sent of a deadline, and what was not taken, the oldest first.
select n.sent_at, n.stage, n.subject, n.recipient, n.channel, n.address, n.message_id, n.problem, n.action_id
from scheduled_action_deadline_notices n
where n.deadline_id = %(deadline_id)s
order by n.id
limit 1000
