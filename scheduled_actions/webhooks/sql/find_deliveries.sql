-- Returns the ids of the newest deliveries before the cursor that match all filters, and the id of the last action read,
-- which is null at the end. Reads at most `examined` actions that may be deliveries; the next page continues after the
-- last action read.
select
  array(
    select e.id
    from (
      select a.id, a.status, a.team_id, a.payload
      from scheduled_actions a
      where a.action_type = 'webhook:send' and (%(before)s::uuid is null or a.id < %(before)s)
      order by a.id desc
      limit %(examined)s
    ) e
    where jsonb_typeof(e.payload -> 'endpoint') = 'string'
      and (%(status)s::text is null or e.status = %(status)s)
      and (%(team_id)s::text is null or e.team_id = %(team_id)s)
      and (%(endpoint)s::text is null or e.payload ->> 'endpoint' = %(endpoint)s)
      and (%(event)s::text is null or coalesce(e.payload ->> 'event', '') = %(event)s)
    order by e.id desc
    limit %(limit)s
  ),
  (
    select a.id
    from scheduled_actions a
    where a.action_type = 'webhook:send' and (%(before)s::uuid is null or a.id < %(before)s)
    order by a.id desc
    offset %(examined)s - 1
    limit 1
  )
