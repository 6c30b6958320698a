"""Recurrence: rules that define a series of instants; the instants do not depend on the current time.

A rule is a string: an interval, a cron expression, days of the week, an RRULE, a business day, or a project
function.
`compiling.compile_recurrence` compiles it for a time zone to a `Recurrence`, which computes the occurrences.
"""
