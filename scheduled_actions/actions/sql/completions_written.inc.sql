-- Announces the next starts after `completed`, and returns the actions that were completed.
announced as (
  update scheduled_action_ticks t
  set announcement = %(announcement)s, running = case
    when (select count(*) from completed) = cardinality(%(ids)s::uuid[]) then %(running)s::uuid[]
    else %(running)s::uuid[] || array(
      select o.id from unnest(%(ids)s::uuid[]) o (id) where o.id not in (select c.id from completed c)
    )
  end
  where t.id = %(tick_id)s
    and t.announcement <= %(announcement)s
    and (t.lease_expires_at > scheduled_actions_now() or %(running)s::uuid[] = '{}')
  returning true as is_valid
)
select
  case when (select count(*) from completed) < cardinality(%(ids)s::uuid[]) then array(select c.id from completed c) end as ids,
  coalesce((select n.is_valid from announced n), false) as announced
