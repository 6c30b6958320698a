-- Returns the input of conditions as JSON texts: facts, statuses of other actions and deadlines, and the progress of
-- each wait; null for an empty list.
-- A name that ends in `:*` means all facts with the prefix before the asterisk. For such a name, at most
-- `most_prefixed` facts that are neither false nor null are returned, and of each value only whether it is an approval.
-- This is a function, so that a session plans it only once: planning takes as long as reading a few hundred facts. The plan
-- may date from when the tables were empty, and other indexes begin with the name or the team of a fact. Comparisons of
-- rows, their order and the settings leave only the primary key, which has all four columns, also for a table of one page.
create or replace function scheduled_actions_condition_inputs(
  teams text[],
  target_types text[],
  target_ids text[],
  names text[],
  most_prefixed integer,
  awaited uuid[],
  waiters uuid[],
  deadlines uuid[],
  out facts text,
  out actions text,
  out progress text,
  out deadline_states text
)
  language plpgsql stable
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_sort = off
  set plan_cache_mode = force_generic_plan
  set jit = off
  as $$
  begin
    if cardinality(names) > 0 then
      with needed as materialized (
        select *, right(n.name, 2) = ':*' as is_prefix
        from unnest(teams, target_types, target_ids, names) n (team_id, target_type, target_id, name)
      )
      select jsonb_agg(jsonb_build_array(
        f.team_id, f.target_type, f.target_id, f.needed, f.name, f.value, f.size, extract(epoch from f.changed_at)))
      into facts
      from (
        select
          f.team_id, f.target_type, f.target_id, n.name as needed, f.name, f.value, octet_length(f.value::text) as size,
          f.changed_at
        from needed n
        cross join lateral (
          select o.*
          from scheduled_action_facts o
          where (o.team_id, o.target_type, o.target_id, o.name) >= (n.team_id, n.target_type, n.target_id, n.name)
            and (o.team_id, o.target_type, o.target_id, o.name) <= (n.team_id, n.target_type, n.target_id, n.name)
          order by o.team_id, o.target_type, o.target_id, o.name
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
          where (f.team_id, f.target_type, f.target_id) >= (n.team_id, n.target_type, n.target_id)
            and (f.team_id, f.target_type, f.target_id) <= (n.team_id, n.target_type, n.target_id)
            and starts_with(f.name, left(n.name, -1))
            and f.value not in ('false', 'null')
          order by f.team_id, f.target_type, f.target_id, f.name
          limit most_prefixed
        ) p
        where n.is_prefix
      ) f;
    end if;
    if cardinality(awaited) > 0 then
      select jsonb_agg(jsonb_build_array(a.id, coalesce(a.team_id, ''), a.status, a.has_waiters))
      into actions
      from scheduled_actions a
      where a.id = any (awaited);
    end if;
    if cardinality(waiters) > 0 then
      select jsonb_agg(jsonb_build_array(a.id, a.waiting -> 'since', a.waiting -> 'checks'))
      into progress
      from scheduled_actions a
      where a.id = any (waiters) and a.waiting is not null;
    end if;
    if cardinality(deadlines) > 0 then
      select jsonb_agg(jsonb_build_array(d.id, coalesce(d.team_id, ''), d.status))
      into deadline_states
      from scheduled_action_deadlines d
      where d.id = any (deadlines);
    end if;
  end
  $$;
