-- Returns the deadlines that match all filters, newest first, with ids below `before`.
select
  -- include: deadlines/deadline_columns
from scheduled_action_deadlines d
where (%(before)s::uuid is null or d.id < %(before)s)
  and (%(status)s::text is null or d.status = %(status)s)
  and (%(team_id)s::text is null or d.team_id = %(team_id)s)
  and (%(user_id)s::text is null
       or d.recipients @> jsonb_build_array(%(user_id)s::text)
       or d.recipients @> jsonb_build_array(jsonb_build_object('id', %(user_id)s::text)))
  and (%(target_type)s::text is null or d.target_type = %(target_type)s)
  and (%(target_id)s::text is null or d.target_id = %(target_id)s)
  and (%(name)s::text is null or d.name = %(name)s)
  and (%(series_id)s::uuid is null or d.series_id = %(series_id)s)
  and (%(due_from)s::timestamptz is null or d.due_at >= %(due_from)s)
  and (%(due_to)s::timestamptz is null or d.due_at < %(due_to)s)
  and (not %(is_overdue)s
       or d.status in ('open', 'missed') and d.due_at <= scheduled_actions_now() and d.paused_at is null)
order by d.id desc
limit %(limit)s
