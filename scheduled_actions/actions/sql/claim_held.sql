-- The oldest due member of each group taken, and each member that kept its hold, are this tick's, at most `wanted`.
-- A group whose oldest member somebody else is just changing waits: its second is never started before its first.
with oldest as materialized (
  select m.id
  from unnest(%(team_ids)s::text[], %(lock_groups)s::text[]) g (team_id, lock_group)
  cross join lateral (
    select a.id, a.action_type
    from scheduled_actions a
    where a.status = 'pending'
      and a.lock_group = g.lock_group
      and coalesce(a.team_id, '') = g.team_id
      and a.scheduled_at <= scheduled_actions_now()
    order by a.priority, a.scheduled_at, a.id
    limit 1
  ) m
  where m.action_type <> all (%(excluded)s::text[])
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
  a.id, a.action_type, a.priority, date_part('epoch', a.scheduled_at), a.scheduled_at::text, a.attempts,
  a.max_attempts, a.lock_group, a.lock_group_blocks, a.history -> -1 ->> 'outcome', a.payload::text, a.state::text,
  a.retry::text, a.metadata::text, nullif(a.history, '[]')::text, a.team_id, a.error_message, a.target_type, a.target_id,
  a.user_id, a.created_by, a.schedule_id, a.deadline_id, a.dedup_key, date_part('epoch', a.occurrence_at),
  date_part('epoch', a.previous_occurrence_at),
  date_part('epoch', a.started_at), date_part('epoch', a.created_at), a.condition::text,
  a.on_success is not null or a.on_failure is not null
from claimed a
