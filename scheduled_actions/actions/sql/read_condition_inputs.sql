-- Returns the input of conditions as JSON texts: facts, statuses of other actions and deadlines, and the progress of
-- each wait.
-- A name that ends in `:*` means all facts with the prefix before the asterisk. For such a name, at most
-- `prefixed` facts that are neither false nor null are returned, and of each value only whether it is an approval.
select
  extract(epoch from scheduled_actions_now())::float8,
  (
    select jsonb_agg(jsonb_build_array(
      f.team_id, f.target_type, f.target_id, n.name, f.name, f.value, f.size, extract(epoch from f.changed_at)))::text
    from unnest(%(teams)s::text[], %(target_types)s::text[], %(target_ids)s::text[], %(names)s::text[])
      n (team_id, target_type, target_id, name)
    cross join lateral (
      select f.team_id, f.target_type, f.target_id, f.name, f.value, octet_length(f.value::text) as size, f.changed_at
      from scheduled_action_facts f
      where f.team_id = n.team_id
        and f.target_type = n.target_type
        and f.target_id = n.target_id
        and f.name = n.name
        and right(n.name, 2) <> ':*'
      union all
      (
        select
          f.team_id, f.target_type, f.target_id, f.name,
          case
            when f.value in ('true', '"approved"') then f.value
            when f.value -> 'approved' in ('true', '"approved"') then '{"approved": true}'
            else '{}'
          end,
          0, f.changed_at
        from scheduled_action_facts f
        where f.team_id = n.team_id
          and f.target_type = n.target_type
          and f.target_id = n.target_id
          and right(n.name, 2) = ':*'
          and starts_with(f.name, left(n.name, -1))
          and f.value not in ('false', 'null')
        order by f.name
        limit %(prefixed)s
      )
    ) f
  ),
  (
    select jsonb_agg(jsonb_build_array(a.id, coalesce(a.team_id, ''), a.status, a.has_waiters))::text
    from scheduled_actions a
    where a.id = any (%(awaited)s::uuid[])
  ),
  (
    select jsonb_agg(jsonb_build_array(a.id, a.waiting -> 'since', a.waiting -> 'checks'))::text
    from scheduled_actions a
    where a.id = any (%(action_ids)s::uuid[]) and a.waiting is not null
  ),
  (
    select jsonb_agg(jsonb_build_array(d.id, coalesce(d.team_id, ''), d.status))::text
    from scheduled_action_deadlines d
    where d.id = any (%(deadlines)s::uuid[])
  )
