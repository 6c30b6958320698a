-- Returns the receipts of a deadline's notifications, newest first, with ids below `before`.
select n.sent_at, n.stage, n.subject, n.recipient, n.channel, n.address, n.message_id, n.problem, n.action_id, n.id
from scheduled_action_deadline_notices n
where n.deadline_id = %(deadline_id)s
  and (%(before)s::uuid is null or n.id < %(before)s)
order by n.id desc
limit %(limit)s
