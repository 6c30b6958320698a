-- The access schemas contain the current functions and views.
select scheduled_actions_create_access_schema(d.team) from scheduled_actions_access_schemas() d
