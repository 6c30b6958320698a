-- The waiting actions are due now, except those that were rescheduled after the last check of their condition.
select scheduled_actions_make_due(%(ids)s::uuid[])
