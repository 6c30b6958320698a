-- Returns the pause that holds back an action: the oldest active one, or the one that ended and has not returned the action
-- yet; no row without one.
select p.kind, p.name, p.team_id, p.note, p.paused_by, p.paused_at, p.ends_at
from scheduled_action_pauses p
where p.id::text = %(parked_by)s
  or (p.ends_at is null or p.ends_at > scheduled_actions_now())
    and (
      p.kind = 'action_type' and p.name = %(action_type)s and (p.team_id is null or p.team_id = %(team_id)s)
      or p.kind = 'team' and p.name = %(team_id)s
      or p.kind = 'lock_group' and p.name = %(lock_group)s and (p.team_id is null or p.team_id = %(team_id)s)
      or p.kind = 'limit' and p.name = any (%(limit_keys)s::text[]) and (p.team_id is null or p.team_id = %(team_id)s)
    )
order by p.ends_at is null or p.ends_at > scheduled_actions_now() desc, p.paused_at, p.id
limit 1
