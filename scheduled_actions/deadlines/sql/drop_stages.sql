-- The actions of the given stage occurrences are deleted, except those that have started or ended; the actions that wait
-- for them are woken.
with gone as (
  delete from scheduled_actions a
  using jsonb_to_recordset(%(gone)s::jsonb) as g (deadline_id uuid, key text, occurrence integer)
  where a.deadline_id = g.deadline_id
    and a.deadline_stage = g.key || '#' || g.occurrence
    and a.status in ('pending', 'no_action')
    and a.attempts = 0
  returning a.id, a.has_waiters
)
insert into scheduled_action_wakes (topic) select g.id from gone g where g.has_waiters
