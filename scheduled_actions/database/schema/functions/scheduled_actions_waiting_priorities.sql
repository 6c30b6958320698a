-- Returns the priorities of pending actions, with and without a lock group. Each priority takes one index
-- lookup, regardless of the number of its actions.
create or replace function scheduled_actions_waiting_priorities() returns table (is_grouped boolean, priority smallint)
  language sql stable rows 4
  as $$
    with recursive
    -- include: actions/waiting_priorities
    select false, f.priority from free f where f.priority is not null
    union all
    select true, g.priority from grouped g where g.priority is not null
  $$;
