-- Excludes an action `a` of an executor, which only its workers run. The executors are read once per statement.
and a.action_type not like all (array(select unnest(e.type_patterns) from scheduled_action_executors e))
