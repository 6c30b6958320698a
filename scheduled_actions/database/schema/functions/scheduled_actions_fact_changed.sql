-- The topics of the fact are marked as changed, so that the actions waiting for them are woken once this transaction
-- has committed. Returns whether an action waits for one of these topics.
create or replace function scheduled_actions_fact_changed(team_id text, target_type text, target_id text, name text)
  returns boolean
  language plpgsql volatile
  as $$
  declare
    parts text[] := string_to_array(name, ':');
    topics uuid[];
  begin
    topics := array(
      select scheduled_actions_fact_topic(team_id, target_type, target_id, n.known_as)
      from (
        select name as known_as
        union all
        select array_to_string(parts[1:l.length], ':') || ':*' from generate_series(1, cardinality(parts) - 1) l (length)
      ) n
      order by 1);
    insert into scheduled_action_wakes (topic) select unnest(topics);
    return exists (select from scheduled_action_waits w where w.topic = any (topics));
  end
  $$;
