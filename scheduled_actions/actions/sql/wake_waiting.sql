-- Those who wait for what has changed are due now, or marked; answers how many changes were taken away.
select scheduled_actions_wake_waiting(%(most)s)
