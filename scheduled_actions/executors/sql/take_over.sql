-- The worker runs those actions whose ticket is still valid: the action is claimed with the ticket's token, its lease has not
-- ended, and no cancellation was requested. Each has a new claim token and a lease of its own, and is announced as started.
-- Returns the claim columns, the end of the lease and whether the action was taken over; an action without a valid ticket
-- returns no row. An action whose last attempt ended its process is taken over only alone, while the worker runs nothing
-- else; until then it is returned as not taken over, and its ticket stays valid.
-- Repeating this with the same token after a lost connection returns the same actions.
with ticket as materialized (
  select t.*
  from unnest(%(ids)s::uuid[], %(tokens)s::uuid[], %(seconds)s::double precision[])
    with ordinality t (id, token, seconds, number)
),
valid as materialized (
  select
    a.*, t.token as ticket_token, t.seconds, t.number,
    coalesce(a.history -> -1 ->> 'outcome' = 'crashed', false) as runs_alone
  from ticket t
  join scheduled_actions a on a.id = t.id
  where a.id = any (%(ids)s::uuid[])
    and a.status = 'processing'
    and (a.claim_token = t.token or a.claim_token = %(token)s)
    and a.lease_expires_at > scheduled_actions_now()
    and a.cancel_requested_at is null
  order by a.id
  for update of a skip locked
),
decided as materialized (
  select
    v.*,
    not v.runs_alone
      or (
        %(running)s::uuid[] = '{}'
        and v.number = (select min(o.number) from valid o)
        and not exists (select from valid o where not o.runs_alone)
      ) as is_taken
  from valid v
),
taken as (
  update scheduled_actions a
  set
    claim_token = %(token)s,
    lease_expires_at = scheduled_actions_now() + make_interval(secs => d.seconds),
    announced_at = scheduled_actions_now(),
    worker_id = %(worker_id)s,
    updated_at = scheduled_actions_now()
  from decided d
  where a.id = any (%(ids)s::uuid[]) and a.id = d.id and d.is_taken
),
slots as (
  update scheduled_action_limit_slots l
  set claim_token = %(token)s
  from decided d
  where d.is_taken and d.limit_keys is not null and l.action_id = d.id and l.claim_token = d.ticket_token
),
worker as (
  insert into scheduled_action_workers as w (id, executor, name, concurrency, taken_at, running)
  select
    %(worker_id)s, %(executor)s, %(name)s, %(concurrency)s, scheduled_actions_now(),
    %(running)s::uuid[] || array(select d.id from decided d where d.is_taken)
  where exists (select from decided d where d.is_taken)
  on conflict (id) do update
  set seen_at = scheduled_actions_now(), taken_at = excluded.taken_at, finished_at = null, running = excluded.running
)
select
  -- include: actions/claim_columns,
  scheduled_actions_now() + make_interval(secs => a.seconds), a.is_taken
from decided a
order by a.number
