-- Excludes an action `a` that a pause holds back. The lists of paused types and teams are read once per statement.
and a.action_type <> all (array(
  select p.name
  from scheduled_action_pauses p
  where p.kind = 'action_type' and p.team_id is null and (p.ends_at is null or p.ends_at > scheduled_actions_now())
))
and (
  not exists (select from scheduled_action_pauses)
  or not exists (
    select
    from scheduled_action_pauses p
    where (p.ends_at is null or p.ends_at > scheduled_actions_now())
      and (
        p.kind = 'action_type' and p.name = a.action_type and p.team_id = a.team_id
        or p.kind = 'team' and p.name = a.team_id
        or p.kind = 'lock_group' and p.name = a.lock_group and (p.team_id is null or p.team_id = a.team_id)
      )
  )
)
