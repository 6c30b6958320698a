-- The subject is paused from the end of this transaction until ends_at (null: until it is resumed): no tick claims its
-- actions. Returns the id of the pause. A pause of the same subject keeps its id and gets this note, author and end.
create or replace function scheduled_actions_pause(
  kind text,
  name text,
  team_id text default null,
  note text default null,
  paused_by text default null,
  ends_at timestamptz default null
)
  returns uuid
  language sql volatile
  as $$
    select scheduled_actions_refuse(p.problem)
    from (
      select coalesce(
        scheduled_actions_pause_problem(
          scheduled_actions_pause.kind, scheduled_actions_pause.name, scheduled_actions_pause.team_id),
        case
          when length(scheduled_actions_pause.note) > 1000 then 'note: must have at most 1000 characters'
          when length(scheduled_actions_pause.paused_by) > 255 then 'paused_by: must have at most 255 characters'
          when not isfinite(scheduled_actions_pause.ends_at) then format(
            'ends_at: must be a finite instant, not %s; leave it out to pause until it is resumed',
            scheduled_actions_pause.ends_at)
          when scheduled_actions_pause.ends_at <= scheduled_actions_now()
            then format('ends_at: %s is not in the future', scheduled_actions_pause.ends_at)
        end)
    ) p (problem)
    where p.problem is not null;
    insert into scheduled_action_pauses as p (kind, name, team_id, note, paused_by, ends_at)
    values (
      scheduled_actions_pause.kind, scheduled_actions_pause.name, scheduled_actions_pause.team_id,
      scheduled_actions_pause.note, scheduled_actions_pause.paused_by, scheduled_actions_pause.ends_at)
    on conflict (kind, name, coalesce(team_id, ''))
    do update set
      note = excluded.note,
      paused_by = excluded.paused_by,
      paused_at = case when p.ends_at <= scheduled_actions_now() then excluded.paused_at else p.paused_at end,
      ends_at = excluded.ends_at
    returning id
  $$;
