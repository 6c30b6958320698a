-- Occurrences of stages that are not to come any more, and had not begun, are gone.
delete from scheduled_actions a
using unnest(%(deadline_ids)s::uuid[], %(stages)s::text[]) as g (deadline_id, stage)
where a.deadline_id = g.deadline_id
  and a.deadline_stage = g.stage
  and a.status in ('pending', 'no_action')
  and a.attempts = 0
