-- At most `wanted` of the actions, in the given order, that are still in the queue of the executor, and the first due members
-- of their lock groups, are claimed by one of its workers. Actions locked by other transactions are passed over.
with due as materialized (
  select a.id
  from scheduled_actions a
  where a.id = any (%(ids)s::uuid[])
    and a.status = 'pending'
    and a.parked_by = 'queue:' || %(executor)s::text
    and a.scheduled_at <= scheduled_actions_now()
    and (a.expires_at is null or a.expires_at > scheduled_actions_now())
    -- The group was taken in this transaction, or is still kept by the action.
    and (
      a.lock_group is null
      or exists (select from scheduled_action_holds h where h.action_id = a.id and h.busy_until is null)
      and (
        a.id = any (%(holding)s::uuid[])
        or a.id = (
          -- include: actions/first_member
        )
      )
    )
    and a.action_type like any (array(
      select unnest(e.type_patterns) from scheduled_action_executors e where e.name = %(executor)s
    ))
    -- include: actions/not_paused
  order by array_position(%(ids)s::uuid[], a.id)
  limit %(wanted)s
  for update of a skip locked
)
update scheduled_actions a
set
  executor = %(executor)s,
  parked_by = null,
  -- include: actions/claim_values
where a.id = any (array(select d.id from due d))
returning
  -- include: actions/claim_columns
