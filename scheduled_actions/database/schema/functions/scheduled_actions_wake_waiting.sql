-- The actions that wait for changed topics are due. Returns the number of changes processed, at most `most`; also `most` if
-- more actions are to be woken: of those that wait for one topic, a call wakes a thousand, and the change is stored
-- again for the others. So a call takes a limited time, however many actions wait.
-- Marks are set before actions are changed, as in settlements of waiting actions, so that the two cannot deadlock. Each
-- statement of this function sees the changes that were committed before it started.
create or replace function scheduled_actions_wake_waiting(most integer) returns integer
  language plpgsql volatile
  as $$
  declare
    taken integer;
    small uuid[];
    -- Topics with more waits than a call handles. The first is handled if there are no others.
    large uuid[];
    after_ids uuid[];
    last_ids uuid[];
    waiters uuid[];
    waiter uuid;
  begin
    with gone as (
      delete from scheduled_action_wakes w
      where w.id = any (array(select k.id from scheduled_action_wakes k order by k.id limit most for update skip locked))
      returning w.topic, w.after_id
    ),
    changed as (
      select c.topic, c.after_id, b.last_id, c.after_id is not null or b.last_id is not null as is_large
      from (select distinct g.topic, g.after_id from gone g) c
      left join lateral (
        select w.action_id as last_id
        from scheduled_action_waits w
        -- A range of the primary key: by topic, the planner may read the waits of all topics in the order of the actions.
        where (w.topic, w.action_id) > (c.topic, coalesce(c.after_id, '00000000-0000-0000-0000-000000000000'))
          and (w.topic, w.action_id) <= (c.topic, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        order by w.topic, w.action_id
        offset 999
        limit 1
      ) b on true
    )
    select
      (select count(*) from gone),
      array_agg(c.topic) filter (where not c.is_large), array_agg(c.topic) filter (where c.is_large),
      array_agg(c.after_id) filter (where c.is_large), array_agg(c.last_id) filter (where c.is_large)
    into taken, small, large, after_ids, last_ids
    from changed c;
    if taken = 0 then
      return 0;
    end if;
    if large is not null then
      insert into scheduled_action_wakes (topic, after_id)
      select l.topic, case when l.number = 1 and small is null then l.last_id else l.after_id end
      from unnest(large, after_ids, last_ids) with ordinality l (topic, after_id, last_id, number)
      where l.number > 1 or small is not null or l.last_id is not null
      order by l.number;
    end if;
    -- Two statements: with a range of actions in the first one, a call takes fifteen times as long.
    if small is not null then
      with found as materialized (
        select w.topic, w.action_id
        from scheduled_action_waits w
        where w.topic = any (small)
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
    else
      with found as materialized (
        select w.topic, w.action_id
        from scheduled_action_waits w
        where w.topic = large[1]
          and w.action_id > coalesce(after_ids[1], '00000000-0000-0000-0000-000000000000')
          and w.action_id <= coalesce(last_ids[1], 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        order by w.action_id
        for update
      ),
      marked as (
        update scheduled_action_waits w
        set is_woken = true
        from found f
        where w.topic = f.topic and w.action_id = f.action_id and not w.is_woken
      )
      select array_agg(f.action_id) into waiters from found f;
    end if;
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
    return case when large is null then taken else most end;
  end
  $$;
