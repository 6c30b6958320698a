-- At most `limit` limit keys that have not been used for an hour are deleted. A key counts as used while it has slots in use or
-- queued actions, and until its burst is full again.
with old as materialized (
  select k.team_id, k.limit_key,
    k.full_until > scheduled_actions_now()
      or exists (select from scheduled_action_limit_slots s where s.team_id = k.team_id and s.limit_key = k.limit_key)
      or exists (
        select
        from scheduled_actions a
        where a.status = 'pending'
          and a.parked_by = 'limit'
          and a.limit_keys[1] = k.limit_key
          and coalesce(a.team_id, '') = k.team_id
      ) as is_used
  from scheduled_action_limit_keys k
  where k.used_at < scheduled_actions_now() - interval '1 hour'
  order by k.used_at
  limit %(limit)s
  for update of k skip locked
),
still_used as (
  update scheduled_action_limit_keys k
  set used_at = scheduled_actions_now()
  from old o
  where o.is_used and k.team_id = o.team_id and k.limit_key = o.limit_key
)
delete from scheduled_action_limit_keys k
using old o
where not o.is_used and k.team_id = o.team_id and k.limit_key = o.limit_key
