-- The actions of the given stage occurrences are deleted, except those that have started or ended.
delete from scheduled_actions a
using jsonb_to_recordset(%(gone)s::jsonb) as g (deadline_id uuid, key text, occurrence integer)
where a.deadline_id = g.deadline_id
  and a.deadline_stage = g.key || '#' || g.occurrence
  and a.status in ('pending', 'no_action')
  and a.attempts = 0
