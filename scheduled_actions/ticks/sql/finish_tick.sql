-- The tick has ended, unless its row has a later announcement.
update scheduled_action_ticks t
set finished_at = scheduled_actions_now(), running = '{}', outcome = %(outcome)s, counts = %(counts)s::jsonb,
  announcement = %(announcement)s
where t.id = %(tick_id)s and t.announcement <= %(announcement)s
