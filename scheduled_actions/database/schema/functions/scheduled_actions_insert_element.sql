-- One element of schedule_actions is stored. Returns the same as schedule_action.
create or replace function scheduled_actions_insert_element(element jsonb, wait_ms integer, scheduled_by uuid)
  returns table (id uuid, deduplicated boolean)
  language sql volatile
  as $$
    select put.id, put.deduplicated
    from scheduled_actions_elements(jsonb_build_array(element)) e
    cross join lateral scheduled_actions_insert_with_timeout(
      jsonb_populate_record(
        null::scheduled_actions,
        to_jsonb(e) || jsonb_build_object('id', scheduled_actions_uuid7(), 'scheduled_by', scheduled_by)),
      e.dedup_seconds, e.dedup_mode, wait_ms) put
  $$;
