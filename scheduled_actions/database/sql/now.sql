-- Returns the time of the database's clock, as all statements use it.
select scheduled_actions_now()
