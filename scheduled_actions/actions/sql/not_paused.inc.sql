-- Excludes an action `a` that a pause holds back. The pauses are read once per statement; without pauses, no row is examined.
-- A subquery for each row would raise the planner's estimate so much that servers with JIT compile each claim.
and case when (select true from scheduled_action_pauses limit 1) is null then true else
  not array[
    concat_ws(E'\n', 'action_type', 0, a.action_type),
    concat_ws(E'\n', 'action_type', coalesce(length(a.team_id), 0), a.team_id, a.action_type),
    concat_ws(E'\n', 'team', 0, a.team_id),
    concat_ws(E'\n', 'lock_group', 0, a.lock_group),
    concat_ws(E'\n', 'lock_group', coalesce(length(a.team_id), 0), a.team_id, a.lock_group)
  ] && array(
    select concat_ws(E'\n', p.kind, coalesce(length(p.team_id), 0), p.team_id, p.name)
    from scheduled_action_pauses p
    where p.ends_at is null or p.ends_at > scheduled_actions_now()
  )
end
