-- Returns the input of conditions as JSON texts: facts, statuses of other actions and deadlines, and the progress of
-- each wait.
-- A name that ends in `:*` means all facts with the prefix before the asterisk. For such a name, at most
-- `prefixed` facts that are neither false nor null are returned, and of each value only whether it is an approval.
with needed as materialized (
  select *, right(n.name, 2) = ':*' as is_prefix
  from unnest(%(teams)s::text[], %(target_types)s::text[], %(target_ids)s::text[], %(names)s::text[])
    n (team_id, target_type, target_id, name)
)
select
  extract(epoch from scheduled_actions_now())::float8,
  (
    select jsonb_agg(jsonb_build_array(
      f.team_id, f.target_type, f.target_id, f.needed, f.name, f.value, f.size, extract(epoch from f.changed_at)))::text
    from (
      select
        f.team_id, f.target_type, f.target_id, n.name as needed, f.name, f.value, octet_length(f.value::text) as size,
        f.changed_at
      from needed n
      -- The limit makes the planner look up each fact by key: a join may read the whole table.
      cross join lateral (
        select o.*
        from scheduled_action_facts o
        where o.team_id = n.team_id and o.target_type = n.target_type and o.target_id = n.target_id and o.name = n.name
        limit 1
      ) f
      where not n.is_prefix
      union all
      select p.team_id, p.target_type, p.target_id, n.name, p.name, p.value, 0, p.changed_at
      from needed n
      cross join lateral (
        select
          f.team_id, f.target_type, f.target_id, f.name,
          case
            when f.value in ('true', '"approved"') then f.value
            when f.value -> 'approved' in ('true', '"approved"') then '{"approved": true}'
            else '{}'
          end as value,
          f.changed_at
        from scheduled_action_facts f
        where f.team_id = n.team_id
          and f.target_type = n.target_type
          and f.target_id = n.target_id
          and starts_with(f.name, left(n.name, -1))
          and f.value not in ('false', 'null')
        order by f.name
        limit %(prefixed)s
      ) p
      where n.is_prefix
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
