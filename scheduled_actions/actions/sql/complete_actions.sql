-- The actions whose claim is still valid are completed. All are at their first attempt, without a lock group and
-- without data except their times (microseconds after `begun_at`); for such outcomes this takes less than two thirds of
-- the time of `settle.sql`.
-- An occurrence whose schedule waits for its end is left to `settle.sql` and stays announced until then.
-- The next starts are announced and row locks are awaited as in `settle.sql`. The tick is open: a closed one is
-- reopened by its first announcement, which never comes with a completion. `ids` is null if all actions were written.
with patience as materialized (
  select set_config('lock_timeout', %(patience_ms)s, true)
),
completed as (
  update scheduled_actions a
  set
    status = 'completed',
    attempts = least(greatest(a.attempts, 0), 2147483646) + 1,
    max_attempts = coalesce(a.max_attempts, o.max_attempts),
    started_at = %(begun_at)s + o.started * interval '1 microsecond',
    completed_at = %(begun_at)s + o.ended * interval '1 microsecond',
    error_message = null,
    claim_token = null,
    lease_expires_at = null,
    updated_at = scheduled_actions_now()
  from patience
  cross join unnest(
    %(ids)s::uuid[], %(tokens)s::uuid[], %(started)s::bigint[], %(ended)s::bigint[], %(max_attempts)s::integer[]
  ) as o (id, token, started, ended, max_attempts)
  where a.id = o.id
    and a.claim_token = o.token
    and (
      a.schedule_id is null
      or not exists (
        select
        from scheduled_action_schedules s
        where s.id = a.schedule_id
          and (s.recurrence_type = 'rolling' or s.pause_after_failures is not null or s.next_action_id = a.id)
      )
    )
  returning a.id
),
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
