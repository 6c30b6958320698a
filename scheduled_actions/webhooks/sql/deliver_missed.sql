-- The events among `ids` that were not routed to the endpoint have a delivery to it, and list it in their result.
-- Returns the number of new deliveries.
with missed as (
  update scheduled_actions a
  set
    result = jsonb_set(coalesce(a.result, '{}'), '{endpoints}',
      coalesce(a.result -> 'endpoints', '[]') || to_jsonb(%(endpoint)s::text)),
    history = scheduled_actions_append_history(a.history, jsonb_build_object(
      'outcome', 'replayed', 'endpoint', %(endpoint)s::text, 'at', scheduled_actions_now(), 'by', %(by)s::text)),
    updated_at = scheduled_actions_now()
  where a.id = any (%(ids)s::uuid[])
    and a.status in ('completed', 'skipped')
    and not coalesce(a.result -> 'endpoints' ? %(endpoint)s, false)
  returning a.id, a.payload, a.team_id, a.priority, a.target_type, a.target_id, a.user_id, a.created_at
)
select count(s.id)
from schedule_actions((
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'action_type', 'webhook:send',
      'payload', m.payload || jsonb_build_object('endpoint', %(endpoint)s::text),
      'scheduled_at', %(until)s::timestamptz,
      'team_id', m.team_id,
      'priority', m.priority,
      'max_attempts', %(max_attempts)s::integer,
      'retry', %(retry)s::jsonb,
      'dedup_window', 0,
      'user_id', m.user_id,
      'created_by', %(by)s::text,
      'target', case when m.target_type is not null and m.target_id is not null
        then jsonb_build_object('type', m.target_type, 'id', m.target_id) end,
      'metadata', jsonb_build_object(
        'event_action_id', m.id,
        'event_at', to_char(m.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS')
          || coalesce(nullif(to_char(m.created_at at time zone 'UTC', '.US'), '.000000'), '') || 'Z'))
    order by m.id), '[]')
  from missed m
)) s
