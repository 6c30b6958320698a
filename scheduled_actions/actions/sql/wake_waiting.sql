-- Actions that wait for changed topics are marked as woken, and due if they are pending. Returns the number of changes
-- processed.
select scheduled_actions_wake_waiting(%(most)s)
