-- The actions that wait for changed topics are due. Returns the number of changes processed, at most `most`.
-- Marks are set before actions are changed, as in settlements of waiting actions, so that the two cannot deadlock. Each
-- statement of this function sees the changes that were committed before it started.
create or replace function scheduled_actions_wake_waiting(most integer) returns integer
  language plpgsql volatile
  as $$
  declare
    taken uuid[];
    waiters uuid[];
    waiter uuid;
  begin
    with gone as (
      delete from scheduled_action_wakes w
      where w.id = any (array(select k.id from scheduled_action_wakes k order by k.id limit most for update skip locked))
      returning w.topic
    )
    select array_agg(g.topic) into taken from gone g;
    if taken is null then
      return 0;
    end if;
    with found as materialized (
      select w.topic, w.action_id
      from scheduled_action_waits w
      where w.topic = any (taken)
      order by w.action_id, w.topic
      for update
    ),
    marked as (
      update scheduled_action_waits w
      set is_woken = true
      from found f
      where w.topic = f.topic and w.action_id = f.action_id and not w.is_woken
    )
    select array_agg(distinct f.action_id) into waiters from found f;
    begin
      perform scheduled_actions_make_due(waiters);
    exception
      when transaction_rollback or lock_not_available or insufficient_resources then raise;
      -- An action whose update fails is unchanged until its next check or a sweep; the others are woken.
      when others then
        foreach waiter in array waiters loop
          begin
            perform scheduled_actions_make_due(array[waiter]);
          exception
            when transaction_rollback or lock_not_available or insufficient_resources then raise;
            when others then null;
          end;
        end loop;
    end;
    return cardinality(taken);
  end
  $$;
