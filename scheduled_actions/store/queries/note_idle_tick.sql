-- A tick that found nothing to do has its row; it leased nothing.
insert into scheduled_action_ticks (id, started_at, finished_at, lease_expires_at, caller, outcome, counts, budget)
values (
  %(tick_id)s, scheduled_actions_now(), scheduled_actions_now(), scheduled_actions_now(), %(caller)s, 'finished',
  %(counts)s::jsonb, %(budget)s::jsonb
)
on conflict (id) do nothing
