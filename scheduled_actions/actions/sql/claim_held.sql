-- At most `wanted` actions are claimed by this tick: the first due action of each lock group taken, and each action
-- that kept its hold.
-- A group whose first action is locked by another transaction or held back by a pause is skipped, so that its second
-- action never starts first.
with oldest as materialized (
  select a.id
  from unnest(%(team_ids)s::text[], %(lock_groups)s::text[]) g (team_id, lock_group)
  cross join lateral (
    select m.id, m.action_type, m.team_id, m.lock_group, m.parked_by, m.limit_keys
    from scheduled_actions m
    where m.status = 'pending'
      and m.lock_group = g.lock_group
      and coalesce(m.team_id, '') = g.team_id
      and m.scheduled_at <= scheduled_actions_now()
    order by m.priority, m.scheduled_at, m.id
    limit 1
  ) a
  where a.action_type <> all (%(excluded)s::text[])
    and a.parked_by is null
    and a.limit_keys is null
    -- include: actions/not_of_executor
    -- include: actions/not_paused
  union
  select unnest(%(kept)s::uuid[])
),
due as materialized (
  select a.id
  from scheduled_actions a
  where a.id = any (array(select o.id from oldest o))
    and a.status = 'pending'
    and a.scheduled_at <= scheduled_actions_now()
  order by a.priority, a.scheduled_at, a.id
  limit %(wanted)s
  for update of a skip locked
),
claimed as (
  update scheduled_actions a
  set
    -- include: actions/claim_values
  where a.id = any (array(select d.id from due d))
  returning a.*
),
marked as (
  update scheduled_action_holds h
  set action_id = c.id, acquired_at = scheduled_actions_now()
  from claimed c
  where h.team_id = coalesce(c.team_id, '') and h.lock_group = c.lock_group
)
select
  -- include: actions/claim_columns
from claimed a
