-- An action with one of the `statuses` (of `pending`, `no_action` and `processing`) is cancelled, and always one that is claimed
-- for an executor while no worker has taken it over; a running one is requested to stop. No row for another status; if the
-- action is running, and `edit_lock_seconds` is given; or if it has not started, and is overdue or due within
-- `edit_lock_seconds` (null: no lock).
-- Parts that no other part reads run in reverse order: holds are locked before slots.
with found as materialized (
  -- Locked first, so that a take-over that commits meanwhile is seen.
  select a.id, a.status = 'processing' and (a.executor is null or a.announced_at is not null) as is_running
  from scheduled_actions a
  where a.id = %(id)s
    and (
      a.status = any (%(statuses)s::text[])
      or a.status = 'processing' and a.executor is not null and a.announced_at is null
    )
    and (%(team_id)s::text is null or a.team_id = %(team_id)s)
    and (%(edit_lock_seconds)s::int is null
         or a.scheduled_at > scheduled_actions_now() + make_interval(secs => %(edit_lock_seconds)s)
         or a.status = 'no_action')
  for update of a
),
cancelled as (
  update scheduled_actions a
  set
    status = case when f.is_running then a.status else 'cancelled' end,
    cancel_requested_at = scheduled_actions_now(),
    completed_at = case when f.is_running then a.completed_at else scheduled_actions_now() end,
    error_message = coalesce(%(reason)s::text, a.error_message),
    dedup_open = false,
    history = scheduled_actions_append_history(a.history, jsonb_strip_nulls(jsonb_build_object(
      'outcome', case when f.is_running then 'cancel_requested' else 'cancelled' end,
      'at', scheduled_actions_now(), 'by', %(by)s::text, 'reason', %(reason)s::text))),
    claim_token = case when f.is_running then a.claim_token end,
    lease_expires_at = case when f.is_running then a.lease_expires_at end,
    executor = case when f.is_running then a.executor end,
    updated_at = scheduled_actions_now()
  from found f
  where a.id = %(id)s and a.id = f.id
  returning a.*
),
freed_slots as (
  delete from scheduled_action_limit_slots l
  using cancelled c
  where c.limit_keys is not null and l.action_id = c.id and c.status = 'cancelled' and l.busy_until is null
),
freed as (
  delete from scheduled_action_holds h
  using cancelled c
  where h.action_id = c.id and c.status = 'cancelled' and h.busy_until is null
)
select
  -- include: actions/action_columns
from cancelled a
