-- An action with one of the `statuses` (of `pending`, `no_action` and `processing`) is cancelled; a running one is requested
-- to stop. No row for another status; if the action is running, and `edit_lock_seconds` is given; or if it is pending, and
-- overdue or due within `edit_lock_seconds` (null: no lock).
with cancelled as (
  update scheduled_actions a
  set
    status = case when a.status = 'processing' then a.status else 'cancelled' end,
    cancel_requested_at = scheduled_actions_now(),
    completed_at = case when a.status = 'processing' then a.completed_at else scheduled_actions_now() end,
    error_message = coalesce(%(reason)s::text, a.error_message),
    dedup_open = false,
    history = scheduled_actions_append_history(a.history, jsonb_strip_nulls(jsonb_build_object(
      'outcome', case when a.status = 'processing' then 'cancel_requested' else 'cancelled' end,
      'at', scheduled_actions_now(), 'by', %(by)s::text, 'reason', %(reason)s::text))),
    updated_at = scheduled_actions_now()
  where a.id = %(id)s
    and a.status = any (%(statuses)s::text[])
    and (%(team_id)s::text is null or a.team_id = %(team_id)s)
    and (%(edit_lock_seconds)s::int is null
         or a.scheduled_at > scheduled_actions_now() + make_interval(secs => %(edit_lock_seconds)s)
         or a.status = 'no_action')
  returning a.*
),
freed as (
  delete from scheduled_action_holds h
  using cancelled c
  where h.action_id = c.id and c.status = 'cancelled' and h.busy_until is null
)
select
  -- include: actions/action_columns
from cancelled a
