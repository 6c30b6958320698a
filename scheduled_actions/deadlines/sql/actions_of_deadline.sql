-- Returns the latest stored actions of a deadline, latest first.
select a.id, a.action_type, a.status, a.scheduled_at, a.started_at, a.completed_at, a.error_message, a.deadline_stage
from scheduled_actions a
where a.deadline_id = %(deadline_id)s
order by a.scheduled_at desc, a.id desc
limit %(limit)s
