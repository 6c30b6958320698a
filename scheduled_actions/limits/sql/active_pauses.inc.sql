-- The common table expression `active`: the pauses that park actions, locked until the transaction ends. Otherwise, an ended
-- pause could be deleted while this statement parks actions by it.
active as materialized (
  select p.id, p.kind, p.name, p.team_id
  from scheduled_action_pauses p
  where p.kind <> 'limit' and (p.ends_at is null or p.ends_at > scheduled_actions_now())
  for key share of p skip locked
)
