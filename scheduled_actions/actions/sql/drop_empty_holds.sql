-- Lock groups taken in this transaction in which nothing could be claimed are free again.
delete from scheduled_action_holds h
using unnest(%(team_ids)s::text[], %(lock_groups)s::text[]) g (team_id, lock_group)
where h.team_id = g.team_id
  and h.lock_group = g.lock_group
  and not exists (
    select from scheduled_actions a where a.id = h.action_id and a.claim_token = %(token)s
  )
