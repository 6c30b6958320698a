-- One element of schedule_actions is stored. Answers as schedule_action does.
create or replace function scheduled_actions_put_element(element jsonb, wait_ms integer, scheduled_by uuid)
  returns table (id uuid, deduplicated boolean)
  language sql volatile
  as $$
    select put.id, put.deduplicated
    from scheduled_actions_elements(jsonb_build_array(element)) e
    cross join lateral scheduled_actions_put_patiently(
      jsonb_populate_record(
        null::scheduled_actions, to_jsonb(e) || jsonb_build_object('scheduled_by', scheduled_by)),
      e.dedup_seconds, e.dedup_mode, wait_ms) put
  $$;
