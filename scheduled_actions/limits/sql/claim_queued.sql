-- The admitted actions are claimed by this tick, or by a worker of `executor`, which leaves expired ones to ticks. Each takes a
-- slot of each of its keys, whose rows this transaction has locked, and advances the rate of those keys.
-- `keys_of`, `team_ids` and `limit_keys` are parallel arrays: an action, and the team and name of one of its keys.
with due as materialized (
  select a.id
  from scheduled_actions a
  where a.id = any (%(ids)s::uuid[])
    and a.status = 'pending'
    and a.parked_by = 'limit'
    and a.scheduled_at <= scheduled_actions_now()
    -- The group was taken in this transaction, or is still kept by the action.
    and (
      a.lock_group is null
      or exists (select from scheduled_action_holds h where h.action_id = a.id and h.busy_until is null)
    )
    and (
      a.action_type like any (array(
        select unnest(e.type_patterns)
        from scheduled_action_executors e
        where %(executor)s::text is null or e.name = %(executor)s
      ))
    ) = (%(executor)s::text is not null)
    and (%(executor)s::text is null or a.expires_at is null or a.expires_at > scheduled_actions_now())
    -- include: actions/not_paused
  for update of a skip locked
),
claimed as (
  update scheduled_actions a
  set
    executor = %(executor)s,
    parked_by = null,
    -- include: actions/claim_values
  where a.id = any (array(select d.id from due d))
  returning a.*
),
taken as (
  insert into scheduled_action_limit_slots (team_id, limit_key, action_id, claim_token)
  select k.team_id, k.limit_key, c.id, c.claim_token
  from unnest(%(keys_of)s::uuid[], %(team_ids)s::text[], %(limit_keys)s::text[]) k (action_id, team_id, limit_key)
  join claimed c on c.id = k.action_id
  returning team_id, limit_key
),
advanced as (
  update scheduled_action_limit_keys r
  set
    full_until = greatest(r.full_until, scheduled_actions_now()) + make_interval(secs => t.starts * l.interval_seconds)
  from (select n.team_id, n.limit_key, count(*) as starts from taken n group by n.team_id, n.limit_key) t
  cross join lateral scheduled_actions_limit(t.limit_key, t.team_id) l
  where r.team_id = t.team_id and r.limit_key = t.limit_key and l.interval_seconds is not null
)
select
  -- include: actions/claim_columns
from claimed a
