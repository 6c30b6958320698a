-- Returns a value that processes share; no row if the value was never written.
select s.value from scheduled_action_settings s where s.name = %(name)s
