-- The worker was seen now; `finished` says whether it has ended. Returns the time of the database's clock.
insert into scheduled_action_workers as w (id, executor, name, concurrency, finished_at)
values (
  %(worker_id)s, %(executor)s, %(name)s, %(concurrency)s, case when %(finished)s then scheduled_actions_now() end
)
on conflict (id) do update set seen_at = scheduled_actions_now(), finished_at = excluded.finished_at
returning w.seen_at
