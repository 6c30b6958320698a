-- At most `wanted` actions are claimed by this tick: the first due action of each lock group taken, and each action
-- that kept its hold.
-- A group whose first action is locked by another transaction is skipped, so that its second action never starts
-- first.
with oldest as materialized (
  select m.id
  from unnest(%(team_ids)s::text[], %(lock_groups)s::text[]) g (team_id, lock_group)
  cross join lateral (
    select a.id, a.action_type, a.parked_by, a.limit_keys
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group = g.lock_group
      and coalesce(a.team_id, '') = g.team_id
      and a.scheduled_at <= scheduled_actions_now()
    order by a.priority, a.scheduled_at, a.id
    limit 1
  ) m
  where m.action_type <> all (%(excluded)s::text[]) and m.parked_by is null and m.limit_keys is null
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
    status = 'processing',
    claim_token = %(token)s,
    lease_expires_at = %(lease_expires_at)s,
    dedup_open = false,
    updated_at = scheduled_actions_now()
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
