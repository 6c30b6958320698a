-- Returns the number of active pauses, at most `most`, and the number of due actions that they hold back, at most 10,000.
with active as materialized (
  select p.id, p.kind, p.name, p.team_id
  from scheduled_action_pauses p
  where (p.ends_at is null or p.ends_at > scheduled_actions_now())
    and (%(team_id)s::text is null or p.team_id = %(team_id)s or p.kind = 'team' and p.name = %(team_id)s)
  limit %(most)s
)
select
  (select count(*) from active),
  (
    select count(*)
    from (
      select
      from active p
      cross join lateral (
        -- include: limits/held_by
      ) one
      limit 10000
    ) held
  )
