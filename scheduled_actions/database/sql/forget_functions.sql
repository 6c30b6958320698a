-- Only functions that have a file are recorded; returns the names of the functions whose records were deleted.
delete from scheduled_action_functions f
where f.name <> all (%(ours)s)
returning f.name
