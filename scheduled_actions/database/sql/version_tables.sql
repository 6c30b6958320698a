-- Returns whether the search path has the tables that record migrations and functions.
select to_regclass('scheduled_action_migrations') is not null, to_regclass('scheduled_action_functions') is not null
