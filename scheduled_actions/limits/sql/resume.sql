-- The pause of the subject has ended. Returns its row as it was read; no row if the subject is not paused.
select p.id, scheduled_actions_resume(p.kind, p.name, p.team_id)
from scheduled_action_pauses p
where p.kind = %(kind)s and p.name = %(name)s and coalesce(p.team_id, '') = coalesce(%(team_id)s::text, '')
