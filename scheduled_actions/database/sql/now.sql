-- The database's time, as every statement sees it.
select scheduled_actions_now()
