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
        (
          select
          from scheduled_actions a
          where a.status = 'pending' and a.parked_by = p.id::text
          -- By the index; without an order, a scan of all actions would look as cheap.
          order by a.priority, a.scheduled_at, a.id
          limit 10000
        )
        union all
        (
          select
          from scheduled_actions a
          where p.kind = 'limit'
            and a.status = 'pending'
            and a.parked_by = 'limit'
            and a.limit_keys[1] = p.name
            and (p.team_id is null or a.team_id = p.team_id)
          limit 10000
        )
      ) one
      limit 10000
    ) held
  )
