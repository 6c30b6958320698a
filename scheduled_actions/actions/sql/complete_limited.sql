-- As `complete_actions.sql`, for actions that may have limit keys: their slots are free.
-- include: actions/completed,
freed_slots as (
  delete from scheduled_action_limit_slots l
  using completed c
  where l.action_id = c.id and l.claim_token = c.token
),
-- include: actions/completions_written
