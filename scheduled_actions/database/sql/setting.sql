-- One of the values that processes share; no row when nobody has written it.
select s.value from scheduled_action_settings s where s.name = %(name)s
