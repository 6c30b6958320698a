-- Returns the arguments of the latest call from SQL that has not been applied to a schedule, as text: numbers keep their
-- digits. No row if there is none.
select s.requested::text from scheduled_action_schedules s where s.id = %(schedule_id)s and s.requested is not null
