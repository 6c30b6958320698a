-- The tick has ended and says how.
update scheduled_action_ticks t
set finished_at = scheduled_actions_now(), running = '{}', outcome = %(outcome)s, counts = %(counts)s::jsonb
where t.id = %(tick_id)s
