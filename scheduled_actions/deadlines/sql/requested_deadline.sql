-- Returns the arguments of the latest call from SQL that has not been applied to a deadline, as text: numbers keep their
-- digits. No row if there is none.
select d.requested::text from scheduled_action_deadlines d where d.id = %(deadline_id)s and d.requested is not null
