-- What a query has made actions of, and deadlines that conditions ask about.

-- A row of a query that has become an action: it does not become another before `until`.
create table scheduled_action_for_each (
  team_id text not null default '',
  name text not null,
  key text not null,
  until timestamptz not null,
  created_at timestamptz not null default scheduled_actions_now(),
  primary key (team_id, name, key)
)
with (autovacuum_vacuum_scale_factor = 0.05);
create index scheduled_action_for_each_until on scheduled_action_for_each (until) where isfinite(until);

-- A deadline that is met, missed or given up wakes who waits for that.
create function scheduled_actions_wake_after_deadline() returns trigger
  language plpgsql
  as $$
  begin
    insert into scheduled_action_wakes (topic) values (new.id);
    return null;
  end
  $$;

create trigger scheduled_actions_wake_after_deadline
  after update of status on scheduled_action_deadlines
  for each row
  when (new.status is distinct from old.status)
  execute function scheduled_actions_wake_after_deadline();
