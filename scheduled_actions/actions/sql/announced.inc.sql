-- Announces the next starts, as described in `announce.sql`.
update scheduled_action_ticks t
set
  running = %(running)s::uuid[],
  announcement = %(announcement)s,
  finished_at = case when %(running)s::uuid[] = '{}' then t.finished_at end,
  outcome = case when %(running)s::uuid[] = '{}' then t.outcome end
where t.id = %(tick_id)s
  and t.announcement <= %(announcement)s
  and (t.lease_expires_at > scheduled_actions_now() or %(running)s::uuid[] = '{}')
returning true as is_valid
