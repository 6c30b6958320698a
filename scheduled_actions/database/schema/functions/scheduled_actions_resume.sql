-- The pause of the subject has ended. Ticks return the actions that it parked to the claims, and delete it afterwards.
-- Returns false if the subject is not paused.
create or replace function scheduled_actions_resume(kind text, name text, team_id text default null)
  returns boolean
  language sql volatile
  as $$
    select scheduled_actions_refuse(p.problem)
    from (
      select scheduled_actions_pause_problem(
        scheduled_actions_resume.kind, scheduled_actions_resume.name, scheduled_actions_resume.team_id)
    ) p (problem)
    where p.problem is not null;
    with ended as (
      update scheduled_action_pauses p
      set ends_at = scheduled_actions_now()
      where p.kind = scheduled_actions_resume.kind
        and p.name = scheduled_actions_resume.name
        and coalesce(p.team_id, '') = coalesce(scheduled_actions_resume.team_id, '')
        and (p.ends_at is null or p.ends_at > scheduled_actions_now())
      returning p.id
    )
    select exists (select from ended)
  $$;
