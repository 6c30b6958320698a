-- Returns the pauses that hold actions back, the oldest first, at most `most`: active ones, and ended ones whose parked actions
-- have not all returned. Each has the number of actions parked by it or queued at its limit key, at most 10,000.
select p.id, p.kind, p.name, p.team_id, p.note, p.paused_by, p.paused_at, p.ends_at, n.parked
from scheduled_action_pauses p
cross join lateral (
  select count(*) as parked
  from (
    -- include: limits/held_by
  ) held
) n
where (%(id)s::uuid is null or p.id = %(id)s)
  and (%(team_id)s::text is null or p.team_id = %(team_id)s or p.kind = 'team' and p.name = %(team_id)s)
  and (p.ends_at is null or p.ends_at > scheduled_actions_now() or n.parked > 0 or p.id = %(id)s)
order by p.id
limit %(most)s
