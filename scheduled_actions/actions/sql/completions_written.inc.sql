-- Announces the next starts after `completed`, and returns the actions that were completed.
announced as (
  update scheduled_action_ticks t
  set announcement = number, running = case
    when (select count(*) from completed) = cardinality(ids) then next_running
    else next_running || array(select o.id from unnest(ids) o (id) where o.id not in (select c.id from completed c))
  end
  where t.id = tick_id
    and t.announcement <= number
    and (t.lease_expires_at > scheduled_actions_now() or next_running = '{}')
  returning true as is_valid
)
select
  case when (select count(*) from completed) < cardinality(ids) then array(select c.id from completed c) end,
  coalesce((select n.is_valid from announced n), false)
into written, announced
