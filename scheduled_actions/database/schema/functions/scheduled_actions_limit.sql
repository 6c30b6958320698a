-- Returns the limits of a key, and how many of its actions may be claimed now (`room`; 0 also without a rule, so that a key
-- is never used without its limit).
create or replace function scheduled_actions_limit(limit_key text, team_id text)
  returns table (
    scope text, pattern text, at_once integer, interval_seconds double precision, burst integer, in_use integer,
    room integer, opens_at timestamptz, pause_id uuid
  )
  language sql stable rows 1
  as $$
    select
      s.scope, r.pattern, r.at_once, r.interval_seconds, r.burst, u.in_use,
      case when r.pattern is null or p.id is not null then 0
        else greatest(0, least(
          coalesce(r.at_once - u.in_use, 2147483647),
          coalesce(floor(r.burst - extract(epoch from f.full_until - scheduled_actions_now()) / r.interval_seconds + 1e-6), 2147483647)
        ))::integer
      end,
      f.full_until - make_interval(secs => (r.burst - 1) * r.interval_seconds), p.id
    from (select 1) one
    left join lateral (
      select l.*
      from scheduled_action_limit_rules l
      where case when l.is_exact then l.prefix = scheduled_actions_limit.limit_key
        else starts_with(scheduled_actions_limit.limit_key, l.prefix) end
      order by l.is_exact desc, length(l.prefix) desc
      limit 1
    ) r on true
    cross join lateral (
      select case when r.across_teams then '' else coalesce(scheduled_actions_limit.team_id, '') end as scope
    ) s
    cross join lateral (
      select count(*)::integer as in_use
      from scheduled_action_limit_slots t
      where t.team_id = s.scope and t.limit_key = scheduled_actions_limit.limit_key
    ) u
    left join scheduled_action_limit_keys k on k.team_id = s.scope and k.limit_key = scheduled_actions_limit.limit_key
    cross join lateral (select greatest(k.full_until, scheduled_actions_now()) as full_until) f
    left join lateral (
      select q.id
      from scheduled_action_pauses q
      where q.kind = 'limit'
        and q.name = scheduled_actions_limit.limit_key
        and (q.team_id is null or q.team_id = scheduled_actions_limit.team_id)
        and (q.ends_at is null or q.ends_at > scheduled_actions_now())
      limit 1
    ) p on true
  $$;
